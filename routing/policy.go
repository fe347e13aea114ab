package routing

import (
	"penstock/config"
	"penstock/upstreams"
)

// policy is how a route scores its targets; the lowest score gets the call.
type policy uint8

const (
	policyLeastLoaded policy = iota
	policyTwoChoices
	policyRoundRobin
	policyPrefixAffinity
)

func policyOf(name string) policy {
	switch name {
	case config.PolicyTwoChoices:
		return policyTwoChoices
	case config.PolicyRoundRobin:
		return policyRoundRobin
	case config.PolicyPrefixAffinity:
		return policyPrefixAffinity
	}
	return policyLeastLoaded
}

// score is the target's under the route's policy. position counts from the rotating start of this pick; mean is the mean
// load, for the policy that needs it.
func (r *Route) score(q *Query, t *Target, l *upstreams.Load, position int, mean float64) float64 {
	switch r.policy {
	case policyRoundRobin:
		return float64(position) + l.Penalty*float64(l.Limit)
	case policyPrefixAffinity:
		return cold(q, t, l, mean)
	case policyTwoChoices:
		return q.drawn(position, len(r.targets)) + leastLoaded(l)
	default:
		return leastLoaded(l)
	}
}

// tokensPerSlot is how many tokens in flight weigh as much as one more request: a long prompt holds an engine longer than
// a short one, but decoding, which is per request, dominates.
const tokensPerSlot = 4096

// leastLoaded is the share of the upstream's weighted limit that would be in use with this call on it: own leases, others'
// work seen by scraping, recent failures, and the tokens in flight.
func leastLoaded(l *upstreams.Load) float64 {
	work := float64(l.Active+l.Others+1) + l.Penalty + float64(l.Tokens)/tokensPerSlot
	return work / (float64(l.Limit) * l.Weight)
}

// notDrawn pushes a target behind every one that was drawn, and keeps it in the running for when those are full.
const notDrawn = 1 << 20

// drawn is 0 for the two positions that this pick has drawn and notDrawn for the others.
func (q *Query) drawn(position, n int) float64 {
	if n <= 2 {
		return 0
	}
	first := int(mix(q.Rand) % uint64(n))
	second := (first + 1 + int(mix(q.Rand+1)%uint64(n-1))) % n
	if position == first || position == second {
		return 0
	}
	return notDrawn
}
