package routing

import (
	"math"
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// TestEstimateSeconds checks each term of estimateSeconds.
func TestEstimateSeconds(t *testing.T) {
	v := upstreams.Speed{Start: 0.1, Prefill: 0.001, Token: 0.02, Beside: 0.001, Answer: 8, Unread: 100}
	tokens := func(calls float64) float64 { return estimatedResponseTokens * (0.02 + 0.001*calls) }
	own := 0.1 + 0.5
	for name, c := range map[string]struct {
		load upstreams.Load
		want float64
	}{
		"idle":                       {upstreams.Load{Places: 1e6}, own + tokens(1)},
		"prompts ahead":              {upstreams.Load{Places: 1e6, Active: 4, Unread: 2000}, own + 2 + tokens(5)},
		"half of them read":          {upstreams.Load{Places: 1e6, Active: 4, Unread: 2000, Reading: 1}, own + 1 + tokens(5)},
		"overdue":                    {upstreams.Load{Places: 1e6, Active: 4, Unread: 2000, Reading: 60}, own + 0.2 + tokens(5)},
		"others' work":               {upstreams.Load{Places: 1e6, Active: 4, Usual: 2}, own + 0.2 + tokens(7)},
		"two failures of late":       {upstreams.Load{Places: 8, Penalty: 2}, own + 2 + tokens(1)},
		"the last place":             {upstreams.Load{Places: 4, Active: 3}, own + 4 + tokens(4)},
		"four beyond the places":     {upstreams.Load{Places: 4, Active: 7}, own + 8 + 64 + tokens(8)},
		"weight 2: as fast as twice": {upstreams.Load{Places: 1e6, Active: 4, Unread: 2000, Weight: 2}, (own + 2 + tokens(5)) / 2},
	} {
		if c.load.Weight == 0 {
			c.load.Weight = 1
		}
		if got := estimateSeconds(&c.load, &v, 500); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: %v s, want %v s", name, got, c.want)
		}
	}
}

// TestLoadScore checks each term of loadScore.
func TestLoadScore(t *testing.T) {
	for name, c := range map[string]struct {
		load    upstreams.Load
		charged float64
		want    float64
	}{
		"idle":                 {upstreams.Load{Share: 1, Weight: 1}, 1000 - basePromptTokens, 1000},
		"no prompt":            {upstreams.Load{Share: 1, Weight: 1, Active: 3}, 0, 4 * basePromptTokens},
		"a batch":              {upstreams.Load{Share: 1, Weight: 1, Active: 3}, 1000 - basePromptTokens, 4000},
		"prompts ahead":        {upstreams.Load{Share: 1, Weight: 1, Active: 1, Unread: 4000}, 1000 - basePromptTokens, 10000},
		"more places":          {upstreams.Load{Share: 0.25, Weight: 1, Active: 3}, 1000 - basePromptTokens, 1000},
		"others' and failures": {upstreams.Load{Share: 1, Weight: 1, Usual: 2, Others: 9, Penalty: 3}, 1000 - basePromptTokens, 6000},
		"weight":               {upstreams.Load{Share: 0.5, Weight: 2, Active: 1, Unread: 4000}, 1000 - basePromptTokens, 3000},
	} {
		if got := loadScore(&c.load, c.charged); math.Abs(got-c.want) > 0.001 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func pickedIndex(t *testing.T, r *Route, q Query) int {
	t.Helper()
	q.Now = t0
	from := targetSearch{Query: q}
	r.prefixIndex.lookUp(q.Prefix, r.targets, &from.cached)
	best, eligible := r.pickTarget(&from, 0)
	if !eligible || best == nil {
		return -1
	}
	return slices.IndexFunc(r.targets, func(o Target) bool { return o.Upstream == best.Upstream })
}

// TestSoonestCountsWhatIsUncached checks that a prompt goes to the target that has to read the
// fewest of the prompt's tokens, unless too many tokens are queued there. The test covers both
// known and unknown speeds.
func TestSoonestCountsWhatIsUncached(t *testing.T) {
	const n = 40 // blocks of about 128 tokens
	prompt := randomBlocks(n)
	for name, c := range map[string]struct {
		known  [3]int // number of leading blocks that were sent to each target
		unread [3]int // tokens
		want   int
	}{
		"one knows it":                      {[3]int{0, n, 0}, [3]int{0, 0, 0}, 1},
		"it has less to read than the rest": {[3]int{0, n, 0}, [3]int{0, 2000, 0}, 1},
		"it has more to read than the rest": {[3]int{0, n, 0}, [3]int{9000, 15000, 0}, 2},
		"two know it, one of them busy":     {[3]int{n, n, 0}, [3]int{2000, 0, 0}, 1},
		"the longer beginning":              {[3]int{20, n, 0}, [3]int{0, 0, 0}, 1},
		"the longer beginning, busy":        {[3]int{30, n, 0}, [3]int{0, 8000, 0}, 0},
	} {
		for _, learned := range []bool{false, true} {
			r := routeOver(t, config.PolicyLeastLoaded, 64, 64, 64)
			for i := range r.targets {
				if learned {
					answered(t, r, i, speedNeeds, 200*time.Microsecond)
				}
				r.prefixIndex.recordPrompt(prompt[:c.known[i]], &r.targets[i], 1)
				if c.unread[i] > 0 {
					if _, ok := r.targets[i].Upstream.TryLease("", upstreams.PoolText, c.unread[i], t0); !ok {
						t.Fatal("no slot")
					}
				}
			}
			if got := pickedIndex(t, r, Query{Prefix: prompt, Tokens: n * 128}); got != c.want {
				t.Errorf("%s, speeds known %t: target %d, want %d", name, learned, got, c.want)
			}
		}
	}
}

// TestAcquireRecordsUncachedTokens checks that a lease records how many prompt tokens its engine
// has to read.
func TestAcquireRecordsUncachedTokens(t *testing.T) {
	r := routeOver(t, config.PolicyLeastLoaded, 8, 8)
	prompt := randomBlocks(10)
	for turn, want := range []int{2000, 1000, 200} {
		q := Query{Now: t0, Prefix: prompt[:8], Tokens: 2000, Text: 8 * blockBytes, Session: 7}
		switch turn {
		case 1:
			q.Prefix, q.Text = prompt, 16*blockBytes // 8 of 16 blocks are known
		case 2:
			q.Prefix, q.Text, q.Tokens = prompt, 10*blockBytes+blockBytes/2, 210 // all 10 blocks are known
			want = 10
		}
		l, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.Prompt(); got.Uncached != want || got.Tokens != q.Tokens {
			t.Errorf("turn %d: %+v, want %d uncached", turn, got, want)
		}
		l.Release(upstreams.OutcomeOK)
	}
}

// TestSessionHome checks that a conversation that no engine has cached goes to the home of its
// session, unless the home is busier by more than a tenth. The home is the same at every edge. A
// cached prefix outweighs the home.
func TestSessionHome(t *testing.T) {
	edges := []*Route{routeOver(t, config.PolicyLeastLoaded, 16, 16, 16, 16), routeOver(t, config.PolicyLeastLoaded, 16, 16, 16, 16)}
	homes := [4]int{}
	for id := range uint64(40) {
		session := splitmix64(id + 1)
		q := Query{Session: session, Prefix: randomBlocks(6), Tokens: 700, Rand: id}
		home := pickedIndex(t, edges[0], q)
		homes[home]++
		q.Prefix, q.Rand = randomBlocks(9), id+1000 // no engine has this history cached
		if got := pickedIndex(t, edges[1], q); got != home {
			t.Fatalf("session %d is at home at %d and at %d", id, home, got)
		}
		busy := routeOver(t, config.PolicyLeastLoaded, 16, 16, 16, 16)
		acquireLeases(t, busy, home, 1)
		if pickedIndex(t, busy, q) == home {
			t.Errorf("session %d goes to its home though that is busy", id)
		}
		other := &busy.targets[(home+1)%4]
		busy.prefixIndex.recordPrompt(q.Prefix, other, session)
		q.Prefix = append(q.Prefix, 1)
		if got := pickedIndex(t, busy, q); got != (home+1)%4 {
			t.Errorf("session %d goes to %d, and %d knows it", id, got, (home+1)%4)
		}
	}
	if slices.Min(homes[:]) < 3 {
		t.Errorf("homes of 40 sessions: %v", homes)
	}
	q := Query{Prefix: randomBlocks(6), Tokens: 700} // if there is no session, the prompt determines the home
	if a, b := pickedIndex(t, edges[0], q), pickedIndex(t, edges[1], q); a != b {
		t.Errorf("at home at %d and at %d", a, b)
	}
}

// TestHotBeginningsSpread checks that conversations that share a prefix spread over all engines,
// even if there is little load and all conversations have the same cache key.
func TestHotBeginningsSpread(t *testing.T) {
	for i := range 4 {
		learned, oneKey := i&1 != 0, i&2 != 0
		r := routeOver(t, config.PolicyLeastLoaded, 64, 64, 64, 64)
		if learned {
			for i := range r.targets {
				answered(t, r, i, speedNeeds, 200*time.Microsecond)
			}
		}
		system := randomBlocks(160) // about 20 thousand tokens
		got := [4]int{}
		for id := range uint64(400) {
			q := Query{Now: t0, Rand: splitmix64(id), Prefix: append(slices.Clone(system), randomBlocks(2)...), Tokens: 162 * 128, Session: splitmix64(id + 1)}
			if oneKey {
				q.Session, q.CacheKey = 0, 7
			}
			l, target, err := r.Acquire(&q)
			if err != nil {
				t.Fatal(err)
			}
			got[slices.IndexFunc(r.targets, func(o Target) bool { return o.Upstream == target.Upstream })]++
			l.Release(upstreams.OutcomeOK)
		}
		mean, sum := 100.0, 0.0
		for _, n := range got {
			sum += (float64(n) - mean) * (float64(n) - mean) / 4
		}
		if cv := math.Sqrt(sum) / mean; cv > 0.3 {
			t.Errorf("speeds known %t, one cache key %t: %v, a coefficient of variation of %.2f", learned, oneKey, got, cv)
		}
	}
}

// TestEditedConversationsAreNotShared checks that a conversation whose history is edited at every
// turn stays at its engine and does not count as more than one conversation.
func TestEditedConversationsAreNotShared(t *testing.T) {
	r := routeOver(t, config.PolicyLeastLoaded, 64, 64, 64, 64)
	past := randomBlocks(160)
	first := -1
	for turn := range 40 {
		q := Query{Now: t0, Rand: splitmix64(uint64(turn)), Prefix: append(slices.Clone(past), randomBlocks(2)...), Tokens: 162 * 128, Session: 5}
		l, target, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		got := slices.IndexFunc(r.targets, func(o Target) bool { return o.Upstream == target.Upstream })
		if turn == 0 {
			first = got
		}
		if got != first {
			t.Fatalf("turn %d goes to %d, the conversation is at %d", turn, got, first)
		}
		l.Release(upstreams.OutcomeOK)
	}
}
