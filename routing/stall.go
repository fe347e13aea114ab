package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// recentStallWindow is how long a stall counts as recent.
const recentStallWindow = 30 * time.Second

// DecideStall decides what to do about a stalled upstream, considering all routes. A route's last
// target stays in service. If more than half of a route's targets would be stalled within
// recentStallWindow, a generation probe decides. In that case, a fault in the edge or a burst of
// long prompts is more likely than a fault in each engine.
func (t *Table) DecideStall(u *upstreams.Upstream, now time.Time) upstreams.StallDecision {
	decision := upstreams.StallTakeOut
	for _, r := range t.routes {
		if all, others, lately, own := countStalls(r, u, now); own {
			decision = max(decision, decideRouteStall(all, others, lately))
		}
	}
	return decision
}

// decideRouteStall decides for one route. all, others and lately are the results of countStalls.
func decideRouteStall(all, others, lately int) upstreams.StallDecision {
	switch {
	case others == 0:
		return upstreams.StallKeepServing
	case 2*(lately+1) > all:
		return upstreams.StallProbeFirst
	}
	return upstreams.StallTakeOut
}

// countStalls counts the route's upstreams (all), the upstreams other than u that accept calls
// (others), and the upstreams that stalled recently (lately). own reports whether the route
// contains u.
func countStalls(r *Route, u *upstreams.Upstream, now time.Time) (all, others, lately int, own bool) {
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
		case stalled && now.Sub(since) < recentStallWindow:
			lately++
		case t.canTakeCall(now, upstreams.StateUp):
			others++
		}
	}
	return all, others, lately, own
}
