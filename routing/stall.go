package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// stallsLately is how long a stall counts as recent.
const stallsLately = 30 * time.Second

// Stall decides what to do about a stalled upstream, considering all routes. A route's last target
// stays in service. If more than half of a route's targets would stall within stallsLately, a
// generation probe decides. In that case, a fault in the edge or a burst of long prompts is more
// likely than a fault in each engine.
func (t *Table) Stall(u *upstreams.Upstream, now time.Time) upstreams.Stall {
	decision := upstreams.StallOut
	for _, r := range t.routes {
		if all, others, lately, own := stalls(r, u, now); own {
			decision = max(decision, stallOf(all, others, lately))
		}
	}
	return decision
}

// stallOf decides for one route. all, others and lately are the results of stalls.
func stallOf(all, others, lately int) upstreams.Stall {
	switch {
	case others == 0:
		return upstreams.StallStay
	case 2*(lately+1) > all:
		return upstreams.StallConfirm
	}
	return upstreams.StallOut
}

// stalls counts the route's upstreams: all of them, those except u that take calls, and those that
// stalled recently. own reports whether the route contains u.
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
