package call

import (
	"slices"

	"penstock/routing"
	"penstock/upstreams"
)

// alternatives describes to which other targets of its model a call may be sent after an attempt at
// one of them has failed.
type alternatives struct {
	targets  []routing.Target
	failed   *routing.Target
	excluded []upstreams.ID
	tiers    uint8 // the external tiers that the key may use
}

func (c *Call) alternatives() alternatives {
	return alternatives{c.config.model.Route.Targets(), c.attempt.Target(), c.search.excluded, c.keyTiers()}
}

// hasRoom reports whether another target has a free slot for a call that asks q.
func (a *alternatives) hasRoom(route *routing.Route, q *routing.Query) bool {
	q.Tiers, q.Exclude = a.tiers, append(slices.Clip(a.excluded), a.failed.Upstream.ID())
	return slices.ContainsFunc(a.targets, func(t routing.Target) bool { return route.UsableSlots(t.Upstream, q).Slots > 0 })
}

// hasLaterTier reports whether a target in a later tier may answer.
func (a *alternatives) hasLaterTier() bool {
	return slices.ContainsFunc(a.targets, func(t routing.Target) bool {
		return t.Tier > a.failed.Tier && t.IsOpenToTiers(a.tiers) && t.Upstream.State() != upstreams.StateDown &&
			!slices.Contains(a.excluded, t.Upstream.ID())
	})
}

// excludeTier returns the excluded engines and those in the tier of the failed attempt and in
// earlier tiers.
func (a *alternatives) excludeTier() []upstreams.ID {
	ids := a.excluded
	for i := range a.targets {
		if a.targets[i].Tier <= a.failed.Tier {
			ids = append(ids, a.targets[i].Upstream.ID())
		}
	}
	return ids
}
