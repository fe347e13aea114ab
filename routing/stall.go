package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// stallsLately is how long an upstream that stalled counts among those that go at once.
const stallsLately = 30 * time.Second

// Stall decides for every route of an upstream that has stalled: the last target of a route stays,
// and where more than half of a route would go within half a minute a generation probe decides,
// since a fault of the edge, or a burst of long prompts, is more likely than one of each engine.
func (t *Table) Stall(u *upstreams.Upstream, now time.Time) upstreams.Stall {
	decision := upstreams.StallOut
	for _, r := range t.routes {
		if all, others, lately, own := stalls(r, u, now); own {
			decision = max(decision, stallOf(all, others, lately))
		}
	}
	return decision
}

// stallOf decides for one of all upstreams of a route, of which others take calls and some have
// stalled lately.
func stallOf(all, others, lately int) upstreams.Stall {
	switch {
	case others == 0:
		return upstreams.StallStay
	case 2*(lately+1) > all:
		return upstreams.StallConfirm
	}
	return upstreams.StallOut
}

// stalls counts the upstreams of the route: all, those beside u that take calls, and those that
// have stalled lately. own is false if u is none of them.
func stalls(r *Route, u *upstreams.Upstream, now time.Time) (all, others, lately int, own bool) {
	for i := range r.targets {
		t := &r.targets[i]
		if slices.ContainsFunc(r.targets[:i], func(earlier Target) bool { return earlier.Upstream == t.Upstream }) {
			continue
		}
		all++
		since, stalled := t.Upstream.Health.StalledSince()
		switch {
		case t.Upstream == u:
			own = true
		case stalled && now.Sub(since) < stallsLately:
			lately++
		case t.takes(now, upstreams.StateUp):
			others++
		}
	}
	return all, others, lately, own
}
