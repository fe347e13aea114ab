package config

import (
	"slices"
	"testing"
)

// TestTierSetIntersect checks for every pair of lists that their intersection allows the
// deployments that both lists allow, and no others. No list means all internal deployments.
func TestTierSetIntersect(t *testing.T) {
	lists := [][]int{nil, {0}, {1}, {0, 1}, {2}, {0, MaxTier}, {0, 1, 2, 3, 4, 5, 6, 7}}
	allows := func(list []int, tier int, external bool) bool {
		return list == nil && !external || slices.Contains(list, tier)
	}
	for _, a := range lists {
		for _, b := range lists {
			both := NewTierSet(a).Intersect(NewTierSet(b))
			for tier := range MaxTier + 1 {
				for _, external := range []bool{false, true} {
					want := allows(a, tier, external) && allows(b, tier, external)
					if got := both.Allows(tier, external); got != want {
						t.Errorf("%v and %v: tier %d, external %v: %v, want %v", a, b, tier, external, got, want)
					}
				}
			}
		}
	}
}
