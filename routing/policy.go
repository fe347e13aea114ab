package routing

import (
	"penstock/config"
	"penstock/upstreams"
)

// A policy scores a target; the lowest score gets the call. position counts from the rotating start of this pick.
type policy func(position int, l *upstreams.Load) float64

func policyOf(name string) policy {
	if name == config.PolicyRoundRobin {
		return roundRobin
	}
	return leastLoaded
}

// tokensPerSlot is how many tokens in flight weigh as much as one more request: a long prompt holds an engine longer than
// a short one, but decoding, which is per request, dominates.
const tokensPerSlot = 4096

// leastLoaded is the share of the upstream's weighted limit that would be in use with this call on it: own leases, others'
// work seen by scraping, recent failures, and the tokens in flight.
func leastLoaded(_ int, l *upstreams.Load) float64 {
	work := float64(l.Active+l.Others+1) + l.Penalty + float64(l.Tokens)/tokensPerSlot
	return work / (float64(l.Limit) * l.Weight)
}

// roundRobin takes the first eligible target behind the rotating start; failures still push a target back.
func roundRobin(position int, l *upstreams.Load) float64 {
	return float64(position) + l.Penalty*float64(l.Limit)
}
