package routing

import (
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// acquireLeases acquires n leases on one target of a route and does not release them.
func acquireLeases(t *testing.T, r *Route, target, n int) {
	t.Helper()
	for range n {
		if _, ok := r.targets[target].Upstream.TryLease("", upstreams.PoolText, 0, t0); !ok {
			t.Fatalf("target %d has no slot left to hold", target)
		}
	}
}

// failLeases leases n slots of a target and releases them with OutcomeRefused.
func failLeases(t *testing.T, r *Route, target, n int) {
	t.Helper()
	for range n {
		l, ok := r.targets[target].Upstream.TryLease("", upstreams.PoolText, 0, t0)
		if !ok {
			t.Fatalf("target %d has no slot", target)
		}
		l.ReleaseAt(upstreams.OutcomeRefused, t0)
	}
}

// countPicks sends n calls one after another, each with a different random number, and counts them
// by target.
func countPicks(t *testing.T, r *Route, n int, q Query) []int {
	t.Helper()
	got := make([]int, len(r.targets))
	for i := range n {
		q.Now, q.Rand = t0, uint64(i)*0x9e3779b97f4a7c15
		l, target, err := r.Acquire(&q)
		if err != nil {
			t.Fatalf("call %d: got the error %v, want none", i, err)
		}
		got[slices.IndexFunc(r.targets, func(o Target) bool { return o.Upstream == target.Upstream })]++
		l.ReleaseAt(upstreams.OutcomeOK, t0)
	}
	return got
}

func routeOver(t *testing.T, policy string, slots ...int) *Route {
	t.Helper()
	var ups []config.Upstream
	var names []string
	for i, n := range slots {
		names = append(names, string(rune('a'+i)))
		ups = append(ups, upstream(names[i], n))
	}
	return lookup(t, table(t, plan(t, ups...), model("m", policy, names...)), "m")
}

// speedNeeds is the number of responses after which the speed of a target is known.
const speedNeeds = 10

// answered simulates n calls that a target has answered. Each prompt token takes the given time,
// and each response token ten times as long.
func answered(t testing.TB, r *Route, target, n int, token time.Duration) {
	t.Helper()
	q := Query{Now: t0, Tokens: 1000}
	for i := range r.targets {
		if i != target {
			q.Exclude = append(q.Exclude, r.targets[i].Upstream.ID())
		}
	}
	for range n {
		l, _, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		l.RecordFirstToken(1000 * token)
		l.RecordResponse(21, 200*token, t0)
		l.ReleaseAt(upstreams.OutcomeOK, t0)
	}
	r.initSiblingSpeeds() // discards the estimates that the picks above computed for t0
}

// TestLeastLoadedFollowsSpeed checks that targets receive simultaneous calls in proportion to their
// measured speeds. A target with few measurements must count as nearly as fast as the others.
func TestLeastLoadedFollowsSpeed(t *testing.T) {
	at := func(r *Route, now time.Time) []int {
		var all []*upstreams.Lease
		got := make([]int, len(r.targets))
		for i := range 40 {
			l, target, err := r.Acquire(&Query{Now: now, Rand: splitmix64(uint64(i)), Tokens: 100})
			if err != nil {
				t.Fatal(err)
			}
			got[slices.IndexFunc(r.targets, func(o Target) bool { return o.Upstream == target.Upstream })]++
			all = append(all, l)
		}
		for _, l := range all {
			l.ReleaseAt(upstreams.OutcomeOK, now)
		}
		return got
	}
	fast, slow := time.Millisecond, 3*time.Millisecond
	r := routeOver(t, config.PolicyLeastLoaded, 200, 200)
	answered(t, r, 0, speedNeeds, fast)
	if got := at(r, t0); got[0] != 20 {
		t.Errorf("one is not known yet: %v", got)
	}
	answered(t, r, 1, 1, slow)
	if got := at(r, t0); got[1] < 13 || got[1] > 16 {
		t.Errorf("one call has shown that one is slower: %v", got)
	}
	answered(t, r, 1, speedNeeds-1, slow)
	if got := at(r, t0); got[1] < 8 || got[1] > 12 {
		t.Errorf("calls at one that is three times slower: %v", got)
	}
	if got := at(r, t0.Add(time.Hour)); got[0] != 20 {
		t.Errorf("an hour later: %v", got)
	}
	weighted := upstream("b", 200)
	weighted.Weight = 2
	r = lookup(t, table(t, plan(t, upstream("a", 200), weighted), model("m", config.PolicyLeastLoaded, "a", "b")), "m")
	answered(t, r, 0, speedNeeds, fast)
	answered(t, r, 1, speedNeeds, slow)
	if got := at(r, t0); got[1] < 14 || got[1] > 18 {
		t.Errorf("a weight of 2 says that it is twice as fast as it has shown: %v", got)
	}
}

// TestLeastLoadedIsEvenAtEveryStep checks that, as long as no call ends, the default policy never
// gives one target two more calls than another.
func TestLeastLoadedIsEvenAtEveryStep(t *testing.T) {
	for _, policy := range []string{"", config.PolicyLeastLoaded} {
		r := routeOver(t, policy, 9, 9, 9, 9)
		for i := range 36 {
			if _, _, err := r.Acquire(&Query{Now: t0, Rand: splitmix64(uint64(i))}); err != nil {
				t.Fatalf("policy %q, call %d: %v", policy, i, err)
			}
			least, most := 9, 0
			for k := range r.targets {
				var l upstreams.Load
				r.targets[k].Upstream.ReadLoad(&l, upstreams.PoolText, upstreams.MomentOf(t0))
				least, most = min(least, l.Active), max(most, l.Active)
			}
			if most > least+1 {
				t.Errorf("policy %q: after %d calls one target has %d and another %d", policy, i+1, most, least)
			}
		}
	}
}

// TestRoundRobinPassesOver checks which target is picked next while other targets are full or
// failing.
func TestRoundRobinPassesOver(t *testing.T) {
	r := routeOver(t, config.PolicyRoundRobin, 2, 2, 2)
	acquireLeases(t, r, 1, 2)
	if got := countPicks(t, r, 12, Query{}); got[0]+got[2] != 12 || got[0] == 0 || got[2] == 0 {
		t.Errorf("with the second one full: %v", got)
	}
	r = routeOver(t, config.PolicyRoundRobin, 2, 2, 2)
	failLeases(t, r, 1, 2) // with two slots, a penalty of two calls skips four turns: two for each other target
	if got := countPicks(t, r, 12, Query{}); got[1] != 0 {
		t.Errorf("with the second one failing: %v", got)
	}
	if got := countPicks(t, r, 12, Query{Exclude: []upstreams.ID{r.targets[0].Upstream.ID(), r.targets[2].Upstream.ID()}}); got[1] != 12 {
		t.Errorf("with the failing one alone: %v", got)
	}
}

// TestWantsPrefix checks that the edge hashes prompts only if the hashes can change a choice.
func TestWantsPrefix(t *testing.T) {
	for _, policy := range []string{"", config.PolicyLeastLoaded, config.PolicyTwoChoices, config.PolicyRoundRobin, config.PolicyPrefixAffinity} {
		for n, slots := range [][]int{{1}, {1, 1}} {
			if got := routeOver(t, policy, slots...).UsesPrefixIndex(); got != (policy != config.PolicyRoundRobin && n == 1) {
				t.Errorf("policy %q, %d targets: %t", policy, n+1, got)
			}
		}
	}
}
