package routing

import (
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// TestWhy checks that a pick records the reason for its choice, and its estimates for the targets
// with free slots, best first.
func TestWhy(t *testing.T) {
	prompt := randomBlocks(40)
	for name, c := range map[string]struct {
		learned bool
		known   int // number of blocks that were sent to the second target
		full    int // number of targets without free slots, counting from the first
		session uint64
		want    ChoiceReason
		cached  []int // estimated number of cached tokens at each target, best first
	}{
		"unknown, nobody has it": {want: ReasonHome, cached: []int{0, 0, 0}},
		"unknown, one holds it":  {known: 40, want: ReasonUnmeasured, cached: []int{5120, 0, 0}},
		"one holds it":           {learned: true, known: 40, want: ReasonCached, cached: []int{5120, 0, 0}},
		"one holds half of it":   {learned: true, known: 20, want: ReasonCached, cached: []int{2560, 0, 0}},
		"a new conversation":     {learned: true, session: 7, want: ReasonHome, cached: []int{0, 0, 0}},
		"the holder is full":     {learned: true, known: 40, full: 2, want: ReasonOnly, cached: []int{0}},
	} {
		r := routeOver(t, config.PolicyLeastLoaded, 2, 2, 2)
		for i := range r.targets {
			if c.learned {
				answered(t, r, i, speedNeeds, 200*time.Microsecond)
			}
		}
		r.prefixIndex.recordPrompt(prompt[:c.known], &r.targets[1], 1)
		for i := range c.full {
			for range 2 {
				if _, ok := r.targets[i].Upstream.TryLease("", upstreams.PoolText, 100, t0); !ok {
					t.Fatal("no slot")
				}
			}
		}
		q := Query{Now: t0, Prefix: prompt, Tokens: 40 * 128, Text: 40 * blockBytes, Session: c.session, Why: new(PickExplanation)}
		_, best, err := r.Acquire(&q)
		if err != nil {
			t.Fatal(err)
		}
		var cached []int
		for i, e := range q.Why.Estimates {
			cached = append(cached, e.Cached)
			if (e.Seconds > 0) != c.learned || i > 0 && e.Seconds < q.Why.Estimates[i-1].Seconds {
				t.Errorf("%s: got the estimates %+v, want them sorted, and with seconds: %v", name, q.Why.Estimates, c.learned)
			}
		}
		if q.Why.Reason != c.want || !slices.Equal(cached, c.cached) {
			t.Errorf("%s: %s, want %s; %v tokens held, want %v", name, q.Why.Reason, c.want, cached, c.cached)
		}
		if !slices.ContainsFunc(q.Why.Estimates, func(e TargetEstimate) bool { return e.Upstream == best.Upstream.Name() }) {
			t.Errorf("%s: %s is not among %+v", name, best.Upstream.Name(), q.Why.Estimates)
		}
		if c.want.Meaning() == "" {
			t.Errorf("%s has no meaning", c.want)
		}
	}
}

// TestChoiceReasonWithoutTarget checks that a pick that finds no target clears the reason recorded
// by an earlier pick.
func TestChoiceReasonWithoutTarget(t *testing.T) {
	r := routeOver(t, config.PolicyLeastLoaded, 1, 1)
	w := new(PickExplanation)
	for i := range 3 {
		_, _, err := r.Acquire(&Query{Now: t0, Why: w})
		if (err == nil) != (i < 2) || (w.Reason != "") != (i < 2) {
			t.Errorf("call %d: %v, reason %q", i, err, w.Reason)
		}
	}
}

// TestWhyInTiers checks that a pick in a tier with one target is explained, even if the call has
// just lost the race for a slot in an earlier tier.
func TestWhyInTiers(t *testing.T) {
	p := plan(t, upstream("a", 1), upstream("b", 1))
	r := lookup(t, table(t, p, tiered("m", config.Deployment{Upstream: "a"}, config.Deployment{Upstream: "b", Tier: 1})), "m")
	w := new(PickExplanation)
	want := func(name string) {
		t.Helper()
		if w.Reason != ReasonOnly || len(w.Estimates) != 1 || w.Estimates[0].Upstream != name {
			t.Errorf("%s: got %+v", name, w)
		}
	}
	l, _, err := r.Acquire(&Query{Now: t0, Overflow: true, Why: w})
	if err != nil {
		t.Fatal(err)
	}
	want("a")
	l.Release(upstreams.OutcomeOK)

	q := targetSearch{Query: Query{Now: t0, Overflow: true, Why: w}}
	lost := func(m *upstreams.ServedModel, key string, pool upstreams.SlotPool, p upstreams.Prompt, r config.Percent, now time.Time) (*upstreams.Lease, bool) {
		l, _ := m.TryLease(key, pool, p, r, now)
		t.Cleanup(func() { l.Release(upstreams.OutcomeOK) })
		return nil, false
	}
	if _, _, err := acquireTarget(FirstTier(r), &q, lost); err == nil {
		t.Fatal("the first tier has a slot")
	}
	if _, _, err := acquireFromTiers(r, &q); err != nil {
		t.Fatal(err)
	}
	want("b")
}
