package load

import (
	"context"
	"strings"
	"sync"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/result"
)

// scheduledEvent is an action on a scenario's fleet during a run.
type scheduledEvent struct {
	at     time.Duration // time since the start of the measurement
	action string        // argument of Fleet.PerformAction
}

func parseEvent(text string) (scheduledEvent, error) {
	when, what, ok := strings.Cut(text, ":")
	at, err := time.ParseDuration(when)
	if !ok || err != nil || at < 0 {
		return scheduledEvent{}, exit.Usagef("event %q: want TIME:WHAT", text)
	}
	return scheduledEvent{at, what}, nil
}

// Fleet is the fleet on which events act.
type Fleet interface {
	// PerformAction performs an action. If it waits until the edge reacts to the action, seen
	// describes the reaction.
	PerformAction(ctx context.Context, what string) (seen string, err error)
}

// recoveryTime is how long failures are still attributed to an event after it has ended.
const recoveryTime = 10 * time.Second

// runEvents performs each event at its time, counted from begin. It returns the outcomes of all
// events once all events are done or ctx ends.
func (s *settings) runEvents(ctx context.Context, c *client.Clock, begin int64) []result.Event {
	out := make([]result.Event, len(s.events))
	var all sync.WaitGroup
	for i, e := range s.events {
		out[i] = result.Event{AtS: e.at.Seconds(), Action: e.action, Error: "the run ended before"}
		all.Go(func() {
			if !sleepUnlessDone(ctx, time.Duration(begin+int64(e.at)-c.Now())) {
				return
			}
			out[i].StartS, out[i].Error = float64(c.Now())/1e9, ""
			var err error
			if out[i].Seen, err = s.Fleet.PerformAction(ctx, e.action); err != nil {
				out[i].Error = err.Error()
			}
			out[i].EndS = float64(c.Now()) / 1e9
		})
	}
	all.Wait()
	return out
}

// countEventFailures counts the failures that are attributed to each event.
func countEventFailures(events []result.Event, samples []client.Sample) {
	for i := range events {
		e := &events[i]
		last := e.StartS
		for j := range samples {
			s := &samples[j]
			if at := float64(s.At.End) / 1e9; s.Failed() && isBlamedEvent(e, at) {
				e.Lost++
				last = max(last, at)
			}
		}
		if e.Lost > 0 {
			e.RecoveryS = new(last - e.StartS)
		}
	}
}

// countMovedCalls uses the edge's metrics to count the calls that the edge moved to another engine
// during each event and during the recovery after it.
func countMovedCalls(events []result.Event, scrapers []*scraper) {
	for _, s := range scrapers {
		if s.source != "edge" {
			continue
		}
		for i := range events {
			e := &events[i]
			var before, after *metricsReading
			for _, r := range s.successfulReadings() {
				switch at := float64(r.at) / 1e9; {
				case at < e.StartS:
					before = &r
				case after == nil || isBlamedEvent(e, at):
					after = &r
				}
			}
			if before != nil && after != nil && e.EndS > 0 {
				e.Moved = new(int(after.movedCallCount() - before.movedCallCount()))
			}
		}
	}
}
