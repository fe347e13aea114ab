package load

import (
	"context"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"penstock/bench/exit"
	"penstock/bench/load/client"
	"penstock/bench/result"
)

// eventSpec is one event of --at.
type eventSpec struct {
	at   time.Duration // since the start of the measured part
	text string        // as it was written, from the verb on
	verb string        // reload, kill, drain, post, or fleet, which scenarios use
	arg  string
}

// Fleet is what an event of a scenario acts on.
type Fleet interface {
	// Do returns what was seen of the edge, where the event waits for that.
	Do(ctx context.Context, what string) (seen string, err error)
}

// recovery is how long after the end of an event failures are put down to it.
const recovery = 10 * time.Second

// parseEvent reads TIME:VERB[=ARG].
func parseEvent(text string) (eventSpec, error) {
	when, what, ok := strings.Cut(text, ":")
	at, err := time.ParseDuration(when)
	verb, arg, _ := strings.Cut(what, "=")
	if !ok || err != nil || at < 0 || !slices.Contains([]string{"reload", "kill", "drain", "post", "fleet"}, verb) {
		return eventSpec{}, exit.Usagef("--at %q: want TIME:reload, TIME:kill=PID, TIME:drain=PID or TIME:post=URL", text)
	}
	switch verb {
	case "kill", "drain":
		if pid, err := strconv.Atoi(arg); err != nil || pid < 2 {
			return eventSpec{}, exit.Usagef("--at %q: want the id of a process", text)
		}
	case "post":
		url, _, _ := strings.Cut(arg, " ")
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return eventSpec{}, exit.Usagef("--at %q: want a URL", text)
		}
	case "reload":
		if arg != "" {
			return eventSpec{}, exit.Usagef("--at %q: reload takes no argument; --admin says which edge", text)
		}
	}
	return eventSpec{at: at, text: what, verb: verb, arg: arg}, nil
}

// runEvents runs the events at their times, counted from begin, and returns what became of them
// once ctx has ended or all ran.
func (s *settings) runEvents(ctx context.Context, c *client.Clock, begin int64) []result.Event {
	out := make([]result.Event, len(s.events))
	var all sync.WaitGroup
	for i, e := range s.events {
		out[i] = result.Event{AtS: e.at.Seconds(), Action: e.text, Error: "the run ended before"}
		all.Go(func() {
			if !sleep(ctx, time.Duration(begin+int64(e.at)-c.Now())) {
				return
			}
			out[i].StartS, out[i].Error = float64(c.Now())/1e9, ""
			if err := s.act(ctx, e, &out[i]); err != nil {
				out[i].Error = err.Error()
			}
			out[i].EndS = float64(c.Now()) / 1e9
		})
	}
	all.Wait()
	return out
}

// act does what an event says.
func (s *settings) act(ctx context.Context, e eventSpec, out *result.Event) (err error) {
	switch e.verb {
	case "fleet":
		if s.Fleet == nil {
			return errors.New("there is no fleet: only a scenario without a target has one")
		}
		out.Seen, err = s.Fleet.Do(ctx, e.arg)
		return err
	case "reload":
		return client.Post(ctx, s.Admin, "/-/reload", nil, s.AdminToken, s.Insecure)
	case "post":
		url, body, _ := strings.Cut(e.arg, " ")
		scheme, rest, _ := strings.Cut(url, "://")
		host, path, _ := strings.Cut(rest, "/")
		return client.Post(ctx, scheme+"://"+host, "/"+path, []byte(body), "", s.Insecure)
	}
	pid, err := strconv.Atoi(e.arg)
	if err != nil {
		return err
	}
	process, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	if e.verb == "kill" {
		return process.Kill()
	}
	return process.Signal(syscall.SIGTERM)
}

// blame counts for each event the failures that came while it ran or within ten seconds after it.
func blame(events []result.Event, samples []client.Sample) {
	for i := range events {
		e := &events[i]
		last := e.StartS
		for j := range samples {
			s := &samples[j]
			if at := float64(s.At.End) / 1e9; s.Failed() && blames(e, at) {
				e.Lost++
				last = max(last, at)
			}
		}
		if e.Lost > 0 {
			e.RecoveryS = new(last - e.StartS)
		}
	}
}

// moved counts for each event the calls that the edge moved to another engine while it ran or
// within ten seconds after it, as its metrics say.
func moved(events []result.Event, scrapers []*scraper) {
	for _, s := range scrapers {
		if s.source != "edge" {
			continue
		}
		for i := range events {
			e := &events[i]
			var before, after *reading
			for _, r := range s.answered() {
				switch at := float64(r.at) / 1e9; {
				case at < e.StartS:
					before = &r
				case after == nil || blames(e, at):
					after = &r
				}
			}
			if before != nil && after != nil && e.EndS > 0 {
				e.Moved = new(int(after.moved() - before.moved()))
			}
		}
	}
}
