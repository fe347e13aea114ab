package call

import (
	"slices"

	"penstock/routing"
	"penstock/upstreams"
)

// alternativeTargets finds the other targets to which a call may be sent after an attempt at one
// target of its model has failed.
type alternativeTargets struct {
	targets  []routing.Target
	failed   *routing.Target
	excluded []upstreams.ID
	tiers    routing.TierSet // the tiers that the key may use
}

func (c *Call) alternativeTargets() alternativeTargets {
	return alternativeTargets{c.config.model.Route.Targets(), c.attempt.Target(), c.search.excluded, c.keyTiers()}
}

// hasFreeTarget reports whether another target has a free slot for a call with the query q. It sets
// q.Tiers and q.Exclude.
func (a *alternativeTargets) hasFreeTarget(route *routing.Route, q *routing.Query) bool {
	q.Tiers, q.Exclude = a.tiers, append(slices.Clip(a.excluded), a.failed.Upstream.ID())
	return slices.ContainsFunc(a.targets, func(t routing.Target) bool { return route.UsableSlots(t.Upstream, q).Slots > 0 })
}

// hasLaterTier reports whether a target in a later tier may answer.
func (a *alternativeTargets) hasLaterTier() bool {
	return slices.ContainsFunc(a.targets, func(t routing.Target) bool {
		return t.Tier > a.failed.Tier && t.IsOpenToTiers(a.tiers) && t.Upstream.State() != upstreams.StateDown &&
			!slices.Contains(a.excluded, t.Upstream.ID())
	})
}

// exclusionsThroughFailedTier returns the engines that were already excluded, and all engines in
// the failed tier and in earlier tiers.
func (a *alternativeTargets) exclusionsThroughFailedTier() []upstreams.ID {
	ids := a.excluded
	for i := range a.targets {
		if a.targets[i].Tier <= a.failed.Tier {
			ids = append(ids, a.targets[i].Upstream.ID())
		}
	}
	return ids
}
