package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// stallsLately is the time for which a stall counts as recent.
const stallsLately = 30 * time.Second

// Stall decides, over all routes, what happens to an upstream that has stalled. The last target of
// a route stays in use. If more than half of a route's targets would stall within half a minute, a
// generation probe decides, because a fault of the edge, or a burst of long prompts, is then
// likelier than a fault of each engine.
func (t *Table) Stall(u *upstreams.Upstream, now time.Time) upstreams.Stall {
	decision := upstreams.StallOut
	for _, r := range t.routes {
		if all, others, lately, own := stalls(r, u, now); own {
			decision = max(decision, stallOf(all, others, lately))
		}
	}
	return decision
}

// stallOf decides for one of a route's upstreams. all, others and lately are numbers of the route's
// upstreams: all of them, the others that take calls, and those that have stalled lately.
func stallOf(all, others, lately int) upstreams.Stall {
	switch {
	case others == 0:
		return upstreams.StallStay
	case 2*(lately+1) > all:
		return upstreams.StallConfirm
	}
	return upstreams.StallOut
}

// stalls counts the route's upstreams: all of them, the others that take calls, and those that have
// stalled lately. others excludes u. own reports whether u belongs to the route.
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
