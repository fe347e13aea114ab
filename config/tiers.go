package config

// TierSet says which deployments may serve the calls of a key. It has a bit for each tier, and
// internalOnly. The zero value stands for a key that lists no tiers: all tiers, but no external
// upstream.
type TierSet uint16

// internalOnly means that no external upstream may serve the calls. With no tier beside it, no
// deployment may.
const internalOnly TierSet = 1 << (MaxTier + 1)

const allInternal = 2*internalOnly - 1

// NewTierSet returns the set for the tiers that a key lists. Tiers above MaxTier are ignored.
func NewTierSet(tiers []int) (s TierSet) {
	for _, tier := range tiers {
		s |= 1 << max(0, tier) & (internalOnly - 1)
	}
	return s
}

// Allows reports whether a deployment of a tier may serve the calls. external is true if its
// upstream is external.
func (s TierSet) Allows(tier int, external bool) bool {
	if s == 0 {
		s = allInternal
	}
	return s>>tier&1 != 0 && (!external || s&internalOnly == 0)
}

// Intersect returns the set of the deployments that both sets allow.
func (s TierSet) Intersect(other TierSet) TierSet {
	if s == 0 {
		s = allInternal
	}
	if other == 0 {
		other = allInternal
	}
	both := s&other&(internalOnly-1) | (s|other)&internalOnly
	if both == allInternal {
		return 0
	}
	if both == 0 {
		return internalOnly
	}
	return both
}
