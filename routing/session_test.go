package routing

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/upstreams"
)

// TestHintNeverOverridesLoad checks that the session and the cache key are only hints. Regardless
// of these hints, the call goes to an engine that has a free slot and would respond at most a tenth
// later than the best engine. The test covers both known and unknown speeds.
func TestHintNeverOverridesLoad(t *testing.T) {
	const slots = 16
	for _, known := range []bool{false, true} {
		r := routeOver(t, config.PolicyLeastLoaded, slots, slots, slots, slots)
		for i := range r.targets {
			if known {
				answered(t, r, i, speedNeeds, time.Duration(100+50*i)*time.Microsecond)
			}
		}
		rapid.Check(t, func(rt *rapid.T) {
			for i := range r.targets {
				for range rapid.IntRange(0, slots-1).Draw(rt, "held") {
					l, ok := r.targets[i].Upstream.TryLease("", upstreams.PoolText, 0, t0)
					if !ok {
						rt.Fatal("there is no slot left to hold")
					}
					defer l.Release(upstreams.OutcomeOK)
				}
			}
			q := Query{
				Session: rapid.Uint64().Draw(rt, "session"), CacheKey: rapid.Uint64().Draw(rt, "key"), Prefix: randomBlocks(6), Tokens: 700,
				Rand: rapid.Uint64().Draw(rt, "chance"), Now: t0,
			}
			c, all := targetScan{r: r, q: &targetSearch{Query: q, moment: upstreams.MomentOf(t0)}, state: r.targets[0].Upstream.State()}, targetScores{useTime: known}
			r.siblingSpeeds.Refresh(c.q.moment)
			if c.scoreTargets(&all); all.n != len(r.targets) {
				rt.Fatalf("scores of %d targets", all.n)
			}
			got := pickedIndex(t, r, q)
			if i := slices.IndexFunc(all.targets[:all.n], func(s targetScore) bool { return int(s.pos) == got }); all.targets[i].score > maxHomeTimeRatio*all.best.score {
				rt.Fatalf("target %d of %+v", got, all.targets[:all.n])
			}
		})
	}
}

// TestCacheKeyHome checks that conversations with the same cache key start at the same engine. If
// all conversations have the same cache key and the same prefix, the cache key does not distinguish
// them, so they are spread over all engines.
func TestCacheKeyHome(t *testing.T) {
	r := routeOver(t, config.PolicyLeastLoaded, 16, 16, 16, 16)
	other := routeOver(t, config.PolicyLeastLoaded, 16, 16, 16, 16)
	homes := map[int]bool{}
	for key := range uint64(40) {
		q := Query{CacheKey: splitmix64(key + 1), Prefix: randomBlocks(6), Tokens: 700, Rand: key}
		home := pickedIndex(t, r, q)
		homes[home] = true
		q.Prefix, q.Rand = randomBlocks(9), key+1000
		if got := pickedIndex(t, other, q); got != home {
			t.Fatalf("key %d is at home at %d and at %d", key, home, got)
		}
		q.Session = 1
		if session := pickedIndex(t, r, Query{Session: 1, Prefix: q.Prefix, Tokens: 700}); pickedIndex(t, r, q) != session {
			t.Fatal("the key is before the session")
		}
	}
	if len(homes) != 4 {
		t.Errorf("40 keys have their homes at %v", homes)
	}
}
