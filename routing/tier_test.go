package routing

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/upstreams"
)

// tiered returns a model with the given deployments.
func tiered(id string, deployments ...config.Deployment) config.Model {
	m := config.Model{ID: id, Deployments: deployments}
	for i := range m.Deployments {
		d := &m.Deployments[i]
		if d.Served = "served-" + id; d.Tier > 0 && d.When == "" {
			d.When = config.DeploymentUsedWhenFull
		}
	}
	return m
}

// TestTiers checks, for each state of the targets, which tier gets a call.
func TestTiers(t *testing.T) {
	const (
		free = "free"
		full = "full"
		out  = "out"
	)
	at := func(tier int, when string) config.Deployment { return config.Deployment{Tier: tier, When: when} }
	two := []config.Deployment{at(0, ""), at(0, ""), at(1, "full")}
	spare := []config.Deployment{at(0, ""), at(1, "down")}
	three := []config.Deployment{at(0, ""), at(1, "full"), at(2, "full")}
	mixed := []config.Deployment{at(0, ""), at(1, "down"), at(2, "full")}
	for name, c := range map[string]struct {
		deployments []config.Deployment
		state       []string
		tried       []int
		queue       bool // the call may wait for a slot first
		want        string
	}{
		"free":                            {two, []string{free, free, free}, nil, false, "0"},
		"one of two is full":              {two, []string{full, free, free}, nil, false, "1"},
		"both are full":                   {two, []string{full, full, free}, nil, false, "2"},
		"both are full, and it may wait":  {two, []string{full, full, free}, nil, true, "full"},
		"one is full and one out":         {two, []string{full, out, free}, nil, false, "2"},
		"both are out":                    {two, []string{out, out, free}, nil, true, "2"},
		"one is out and one was tried":    {two, []string{out, free, free}, []int{1}, true, "2"},
		"one was tried":                   {two, []string{free, free, free}, []int{0}, false, "1"},
		"all are full":                    {two, []string{full, full, full}, nil, false, "full"},
		"out, and the next full":          {two, []string{out, out, full}, nil, false, "full"},
		"all are out":                     {two, []string{out, out, out}, nil, false, "none"},
		"full, and the next out":          {two, []string{full, full, out}, nil, false, "full"},
		"a spare tier beside a full one":  {spare, []string{full, free}, nil, false, "full"},
		"a spare tier beside none":        {spare, []string{out, free}, nil, true, "1"},
		"a third tier":                    {three, []string{full, full, free}, nil, false, "2"},
		"a third behind one that is out":  {three, []string{full, out, free}, nil, false, "2"},
		"a third behind a spare one":      {mixed, []string{full, free, free}, nil, false, "full"},
		"a third behind a spare one, out": {mixed, []string{out, full, free}, nil, false, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			var ups []config.Upstream
			deployments := slices.Clone(c.deployments)
			for i := range deployments {
				deployments[i].Upstream = fmt.Sprint(i)
				ups = append(ups, upstream(fmt.Sprint(i), 1))
			}
			p := plan(t, ups...)
			r := lookup(t, table(t, p, tiered("m", deployments...)), "m")
			q := Query{Now: t0, Overflow: !c.queue}
			for i, s := range c.state {
				u := p.Upstream(fmt.Sprint(i))[0]
				switch s {
				case full:
					l, ok := u.TryLease("", upstreams.PoolText, 0, t0)
					if !ok {
						t.Fatal("no lease")
					}
					defer l.Release(upstreams.OutcomeOK)
				case out:
					u.SetMode(upstreams.ModeDrain)
				}
				if slices.Contains(c.tried, i) {
					q.Exclude = append(q.Exclude, u.ID())
				}
			}
			l, target, err := r.Acquire(&q)
			got := "none"
			if _, isFull := errors.AsType[*FullError](err); isFull {
				got = "full"
			} else if err == nil {
				got = target.Upstream.Name()
				l.Release(upstreams.OutcomeOK)
			} else if !errors.Is(err, ErrNoUpstream) {
				t.Errorf("got the error %v, want ErrNoUpstream", err)
			}
			if got != c.want {
				t.Errorf("the call goes to %s, want %s", got, c.want)
			}
		})
	}
}

// TestCapacityOfTiers checks that the catalog shows the capacity of the first tier, and that a
// refusal shows the capacity of the tier that is full.
func TestCapacityOfTiers(t *testing.T) {
	p := plan(t, upstream("a", 3), upstream("cloud", 5))
	r := lookup(t, table(t, p, tiered("m", config.Deployment{Upstream: "cloud", Tier: 1}, config.Deployment{Upstream: "a"})), "m")
	if got := r.Targets()[0].Upstream.Name(); got != "a" || len(r.Tiers) != 2 || r.Tiers[1].When != config.DeploymentUsedWhenFull {
		t.Fatalf("first %s, %d tiers", got, len(r.Tiers))
	}
	want := func(tier int) {
		t.Helper()
		full, ok := errors.AsType[*FullError](r.RefusalError(&Query{Now: t0}))
		if total := r.Tiers[tier].PoolCapacity(upstreams.PoolText, t0).Total; !ok || full.Capacity.Total != total {
			t.Errorf("%+v, want %d", full, total)
		}
	}
	if c := r.PoolCapacity(upstreams.PoolText, t0); c.Total != 3 {
		t.Errorf("Capacity = %+v, want a total of 3", c)
	}
	want(0)
	p.Upstream("a")[0].SetMode(upstreams.ModeDrain)
	if c := r.PoolCapacity(upstreams.PoolText, t0); c.Total != 0 {
		t.Errorf("Capacity = %+v, want a total of 0", c)
	}
	want(1)
}

// TestTiersProperty checks that a call always goes to the lowest tier that it may use and that has
// a free slot. A call waits only if no tier that it may use has a free slot.
func TestTiersProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var ups []config.Upstream
		var deployments []config.Deployment
		tiers := rapid.IntRange(2, 4).Draw(rt, "tiers")
		for tier := range tiers {
			when := ""
			if tier > 0 {
				when = rapid.SampledFrom([]string{config.DeploymentUsedWhenFull, config.DeploymentUsedWhenDown}).Draw(rt, "when")
			}
			for range rapid.IntRange(1, 3).Draw(rt, "targets") {
				name := fmt.Sprint("u", len(ups))
				u := upstream(name, rapid.IntRange(1, 3).Draw(rt, "slots"))
				u.External = rapid.Bool().Draw(rt, "external")
				ups = append(ups, u)
				deployments = append(deployments, config.Deployment{Upstream: name, Tier: tier, When: when})
			}
		}
		m := tiered("m", deployments...)
		m.Policy = rapid.SampledFrom(policies).Draw(rt, "policy")
		p := plan(t, ups...)
		tab, err := BuildTable(&config.File{Upstreams: ups, Models: []config.Model{m}}, p, nil)
		if err != nil {
			rt.Fatal(err)
		}
		r := lookup(t, tab, "m")
		var leases []*upstreams.Lease
		defer func() {
			for _, l := range leases {
				l.Release(upstreams.OutcomeOK)
			}
		}()
		any := func() *upstreams.Upstream {
			return r.targets[rapid.IntRange(0, len(r.targets)-1).Draw(rt, "target")].Upstream
		}
		rt.Repeat(map[string]func(*rapid.T){
			"release": func(rt *rapid.T) {
				if len(leases) > 0 {
					i := rapid.IntRange(0, len(leases)-1).Draw(rt, "lease")
					leases[i].Release(upstreams.OutcomeOK)
					leases = slices.Delete(leases, i, i+1)
				}
			},
			"mode": func(rt *rapid.T) {
				any().SetMode(rapid.SampledFrom([]upstreams.OperatorMode{upstreams.ModeReady, upstreams.ModeReady, upstreams.ModeDrain}).Draw(rt, "mode"))
			},
			"call": func(rt *rapid.T) {
				q := Query{Now: t0, Overflow: rapid.Bool().Draw(rt, "overflow"), Rand: rapid.Uint64().Draw(rt, "chance")}
				q.Tiers = rapid.SampledFrom([]TierSet{0, 0, 1, 0b11, 0b101, 0b1110}).Draw(rt, "tiers of the key")
				if rapid.Bool().Draw(rt, "again") {
					q.Exclude = append(q.Exclude, any().ID())
				}
				want := expectedTier(r, &q)
				wait := q
				wait.Overflow = false
				may := expectedTier(r, &wait)
				for i := range r.targets {
					t := &r.targets[i]
					room := r.UsableSlots(t.Upstream, &wait)
					if room.None != (may == none) || (room.Slots > 0) != (may == t.Tier && slotsFree(t, &q) > 0) {
						rt.Fatalf("%s, tier %d: %+v while a call that waits may go to %d", t.Upstream.Name(), t.Tier, room, may)
					}
				}
				l, target, err := r.Acquire(&q)
				got := none
				if err == nil {
					got = target.Tier
					if q.Tiers == 0 && target.isExternal {
						rt.Fatal("the call left the house")
					}
					leases = append(leases, l)
				} else if _, full := errors.AsType[*FullError](err); full {
					got = allFull
				}
				if got != want {
					rt.Fatalf("the call went to tier %d, want %d: %v", got, want, err)
				}
			},
		})
	})
}

// Results of expectedTier for calls that go to no tier.
const (
	none    = -1
	allFull = -2
)

// expectedTier returns the tier that a call should go to according to the documentation.
func expectedTier(r *Route, q *Query) int {
	full := false
	for tier := range config.MaxTier {
		takes, slots, when := false, 0, ""
		for i := range r.targets {
			if t := &r.targets[i]; t.Tier == tier && t.Upstream.Mode() == upstreams.ModeReady && !q.excludesTarget(t) && mayUseExternal(t, q) {
				takes, slots = true, slots+slotsFree(t, q)
			}
		}
		for _, sub := range r.Tiers {
			if sub.targets[0].Tier == tier {
				when = sub.When
			}
		}
		switch {
		case full && (!q.Overflow || when == config.DeploymentUsedWhenDown):
			return allFull
		case slots > 0:
			return tier
		case takes:
			full = true
		}
	}
	if full {
		return allFull
	}
	return none
}

// mayUseExternal applies the consent rule: Prompts go to an external upstream only if the key lists
// the upstream's tier.
func mayUseExternal(t *Target, q *Query) bool {
	return q.Tiers == 0 && !t.isExternal || q.Tiers&(1<<t.Tier) != 0
}

func slotsFree(t *Target, q *Query) int {
	if t.Upstream.Mode() != upstreams.ModeReady || q.excludesTarget(t) || !mayUseExternal(t, q) {
		return 0
	}
	var l upstreams.Load
	t.Upstream.ReadLoad(&l, q.Pool, upstreams.MomentOf(q.Now))
	return l.Limit - l.Taken
}

// TestConsent checks that an external upstream serves only calls of keys that list the upstream's
// tier.
func TestConsent(t *testing.T) {
	house, cloud := upstream("house", 1), upstream("cloud", 1)
	cloud.External = true
	p := plan(t, house, cloud)
	build := func(deployments ...config.Deployment) *Route {
		tab, err := BuildTable(&config.File{Upstreams: []config.Upstream{house, cloud}, Models: []config.Model{tiered("m", deployments...)}}, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		return lookup(t, tab, "m")
	}
	full, ok := p.Upstream("house")[0].TryLease("", upstreams.PoolText, 0, t0)
	if !ok {
		t.Fatal("no lease")
	}
	defer full.Release(upstreams.OutcomeOK)
	second := build(config.Deployment{Upstream: "house"}, config.Deployment{Upstream: "cloud", Tier: 1})
	beside := build(config.Deployment{Upstream: "house"}, config.Deployment{Upstream: "cloud"})
	alone := build(config.Deployment{Upstream: "cloud"})
	for name, c := range map[string]struct {
		r     *Route
		tiers TierSet
		want  error
	}{
		"overflow, no list":           {second, 0, new(FullError)},
		"overflow, tier 0":            {second, 0b01, new(FullError)},
		"overflow, tiers 0 and 1":     {second, 0b11, nil},
		"overflow, tier 1":            {second, 0b10, nil},
		"beside the house, no list":   {beside, 0, new(FullError)},
		"beside the house, tier 0":    {beside, 0b01, nil},
		"alone, no list":              {alone, 0, ErrNoUpstream},
		"alone, tier 0":               {alone, 0b01, nil},
		"alone, a tier it is not of":  {alone, 0b10, ErrNoUpstream},
		"overflow, a tier nobody has": {second, 0b100, ErrNoUpstream},
	} {
		q := Query{Now: t0, Tiers: c.tiers, Overflow: true}
		l, _, err := c.r.Acquire(&q)
		if err == nil {
			l.Release(upstreams.OutcomeOK)
		}
		_, isFull := errors.AsType[*FullError](err)
		_, wantFull := errors.AsType[*FullError](c.want)
		if isFull != wantFull || !wantFull && !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestBusyIsNotDown checks that a full engine that has refused a call counts as full for that call,
// rather than as down. An engine that was excluded for another reason does not count as full.
func TestBusyIsNotDown(t *testing.T) {
	for _, c := range []struct {
		when     string
		busy, to bool // to: whether the next tier gets the call
	}{
		{config.DeploymentUsedWhenDown, true, false},
		{config.DeploymentUsedWhenDown, false, true},
		{config.DeploymentUsedWhenFull, true, true},
	} {
		house, cloud := upstream("house", 4), upstream("cloud", 4)
		p := plan(t, house, cloud)
		m := tiered("m", config.Deployment{Upstream: "house"}, config.Deployment{Upstream: "cloud", Tier: 1, When: c.when})
		q := Query{Now: t0, Overflow: true, Busy: c.busy, Exclude: []upstreams.ID{p.Upstream("house")[0].ID()}}
		l, _, err := lookup(t, table(t, p, m), "m").Acquire(&q)
		if l != nil {
			l.Release(upstreams.OutcomeOK)
		}
		if _, full := errors.AsType[*FullError](err); full == c.to || (err == nil) != c.to {
			t.Errorf("when: %s, busy: %v: %v", c.when, c.busy, err)
		}
	}
}
