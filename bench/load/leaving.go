package load

import (
	"context"
	"strings"
	"time"

	"penstock/bench/load/client"
	"penstock/bench/result"
)

const (
	leaveEvery  = 50 * time.Millisecond // how often the gauge is read while clients leave
	leaveSettle = 5 * time.Second       // time after the run for the gauge to fall
	leaveBound  = 2 * time.Second       // surplus for longer than that is a leak
)

// inFlightGauge returns the scraper whose gauge tells whether clients that left are gone: the engine's, or else the edge's or the
// target's own; nil when none has one.
func inFlightGauge(all []*scraper) (best *scraper, gauge string) {
	for _, source := range []string{"engine", "target", "edge"} {
		for _, s := range all {
			s.mu.Lock()
			has, name := false, ""
			if n := len(s.values); n > 0 {
				_, name, has = requestsInHand(s.values[n-1])
			}
			s.mu.Unlock()
			if kind, _, _ := strings.Cut(s.source, " "); has && kind == source { // an engine's name may follow
				return s, name
			}
		}
	}
	return nil, ""
}

// leaving says whether the server noticed that clients had left. It is called when all requests have ended.
func leaving(ctx context.Context, set *settings, samples []client.Sample, all []*scraper, before int) *result.Leaving {
	if set.LeaveShare == 0 {
		return nil
	}
	out := &result.Leaving{Share: set.LeaveShare, Phase: set.leaveText}
	var left []int64
	for i := range samples {
		if samples[i].Left {
			left = append(left, samples[i].At.End)
		}
	}
	out.Left = len(left)
	s, gauge := inFlightGauge(all)
	switch {
	case s == nil:
		out.Reason = "no gauge of running requests could be read: name the engine by --engine-url, or the edge's admin listener by --admin"
		return out
	case len(left) == 0:
		out.Reason = "no client left"
		return out
	case len(set.Engine) > 1:
		out.Reason = "several engines: no one gauge has all requests"
		return out
	case before > 0:
		out.Reason = "the server had requests of others before the run"
		return out
	}
	out.Source = gauge
	leaked := 0
	for end := time.Now().Add(leaveSettle); ; {
		s.once(ctx)
		s.mu.Lock()
		leaked = s.surplus[len(s.surplus)-1]
		s.mu.Unlock()
		if leaked <= 0 || time.Now().After(end) || !sleep(ctx, leaveEvery) {
			break
		}
	}
	leaked = max(leaked, 0)
	out.Leaked = &leaked
	freed, longest := s.freed(left)
	out.Freed = freed.Distribution(nil)
	ok := leaked == 0 && longest < leaveBound
	out.Verified = &ok
	return out
}

// freed measures for each departure the time until the gauge was no higher than what the client had open, and the longest time
// that it was.
func (s *scraper) freed(left []int64) (result.Histogram, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var h result.Histogram
	for _, at := range left {
		for i, t := range s.times {
			if t >= at && s.surplus[i] <= 0 {
				h.Record(t - at)
				break
			}
		}
	}
	longest, since := int64(0), int64(client.None)
	for i, t := range s.times {
		switch {
		case s.surplus[i] <= 0:
			since = client.None
		case since == client.None:
			since = t
		default:
			longest = max(longest, t-since)
		}
	}
	return h, time.Duration(longest)
}
