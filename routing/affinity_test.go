package routing

import (
	"testing"

	"penstock/config"
	"penstock/upstreams"
)

// homes is where cold conversations go, each of them asked for once; nothing is learned from it.
func homes(r *Route, n int) []int {
	out := make([]int, n)
	for id := range n {
		q := Query{Now: t0, Rand: uint64(id), at: upstreams.At(t0)}
		c := choice{r: r, q: &q, start: id % len(r.targets), state: upstreams.StatePending}
		best, _ := c.home(HashBlocks(nil, 1, conversation(id)))
		for i := range r.targets {
			if best == &r.targets[i] {
				out[id] = i
			}
		}
	}
	return out
}

// A cold conversation's home is told by the prompt as long as load is even, however high it is; one
// that is loaded well above the mean, or would queue, is left out, and nobody else's home changes
// for it.
func TestPrefixAffinityHomeIsBoundedByLoad(t *testing.T) {
	const conversations = 60
	r := routeOver(t, config.PolicyPrefixAffinity, 16, 16, 16, 16)
	idle := homes(r, conversations)
	expect := func(what string, allowed func(id, home int) bool) {
		t.Helper()
		for id, home := range homes(r, conversations) {
			if !allowed(id, home) {
				t.Errorf("%s: conversation %d is at home at %d, was at %d", what, id, home, idle[id])
			}
		}
	}
	same := func(id, home int) bool { return home == idle[id] }
	for i := range r.targets {
		hold(t, r, i, 5)
	}
	expect("load is even", same)
	hold(t, r, 2, 1)
	expect("one call above the mean", same)
	hold(t, r, 2, 4) // 9 against a mean of 6
	expect("well above the mean", func(id, home int) bool { return home != 2 && (idle[id] == 2 || home == idle[id]) })
	for _, i := range []int{0, 1, 3} {
		hold(t, r, i, 5)
	}
	hold(t, r, 2, 6) // 15 against 10 each
	hold(t, r, 1, 6)
	expect("two of them queue", func(id, home int) bool { return home == 0 || home == 3 })
	hold(t, r, 0, 6)
	hold(t, r, 3, 5)
	expect("one slot is left", func(_, home int) bool { return home == 2 || home == 3 })
}

// Of those that know a prompt the least loaded one gets it, and those that would queue do not;
// where what is known is the smaller part of it, load counts for more.
func TestPrefixAffinityAmongThoseWhoKnow(t *testing.T) {
	prompt := HashBlocks(nil, 1, conversation(1))[:8]
	for name, c := range map[string]struct {
		known [3]int // leading blocks that each target was sent
		load  [3]int
		want  int // -1: it is not for those who know to say
	}{
		"nobody":                          {[3]int{0, 0, 0}, [3]int{0, 0, 0}, -1},
		"one":                             {[3]int{0, 8, 0}, [3]int{0, 0, 0}, 1},
		"one, with load":                  {[3]int{0, 8, 0}, [3]int{0, 7, 0}, 1},
		"one, which would queue":          {[3]int{0, 8, 0}, [3]int{0, 8, 0}, -1},
		"two, the first with load":        {[3]int{8, 8, 0}, [3]int{2, 0, 0}, 1},
		"two, the second with load":       {[3]int{8, 8, 0}, [3]int{0, 2, 0}, 0},
		"the longer beginning wins":       {[3]int{6, 8, 0}, [3]int{0, 2, 0}, 1},
		"the shorter when it would queue": {[3]int{6, 8, 0}, [3]int{0, 8, 0}, 0},
		"half is known, with load":        {[3]int{0, 4, 0}, [3]int{0, 7, 0}, 1},
		"less is known, with load":        {[3]int{0, 3, 0}, [3]int{0, 7, 0}, -1},
		"less is known, with even load":   {[3]int{0, 3, 0}, [3]int{6, 6, 6}, 1},
	} {
		r := routeOver(t, config.PolicyPrefixAffinity, 8, 8, 8)
		for i := range r.targets {
			r.directory.learn(prompt[:c.known[i]], r.targets[i].member)
			hold(t, r, i, c.load[i])
		}
		q := Query{Now: t0, Prefix: prompt, at: upstreams.At(t0)}
		best, own := (&choice{r: r, q: &q, state: upstreams.StatePending}).warmest()
		got := -1
		for i := range r.targets {
			if best == &r.targets[i] {
				got = i
			}
		}
		if got != c.want {
			t.Errorf("%s: target %d, want %d", name, got, c.want)
		}
		if best == nil && len(own) == 0 {
			t.Errorf("%s: nothing is left to find a home by", name)
		}
	}
}

// Prompts of different owners are different prompts.
func TestSeedOfOwner(t *testing.T) {
	seen := map[uint64]bool{}
	for _, model := range []string{"m", "n"} {
		for _, owner := range []string{"", "key a", "key b"} {
			for _, tools := range []string{"", "[]"} {
				seen[Seed(model, owner, []byte(tools))] = true
			}
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d seeds of 12", len(seen))
	}
}

// An engine queues when it has as many calls as slots, or as places where those are fewer.
func TestQueues(t *testing.T) {
	for _, c := range []struct {
		load upstreams.Load
		want bool
	}{
		{upstreams.Load{Active: 5, Others: 2, Limit: 8, Places: 8}, false},
		{upstreams.Load{Active: 5, Others: 3, Limit: 8, Places: 8}, true},
		{upstreams.Load{Active: 3, Limit: 64, Places: 4}, false},
		{upstreams.Load{Active: 3, Others: 1, Limit: 64, Places: 4}, true},
		{upstreams.Load{Active: 8, Limit: 8, Places: 32}, true},
	} {
		if got := queues(&c.load); got != c.want {
			t.Errorf("%+v: queues %t", c.load, got)
		}
	}
}
