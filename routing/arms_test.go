package routing

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"penstock/config"
	"penstock/upstreams"
)

// armDeployment returns a deployment with a share of the calls.
func armDeployment(upstream string, percent config.Percent, tier int) config.Deployment {
	return config.Deployment{Upstream: upstream, Tier: tier, Traffic: &percent, Arm: upstream}
}

// numberInArm returns a call number that belongs to the named arm of r or, if the name is empty, to
// no arm.
func numberInArm(t testing.TB, r *Route, name string) uint64 {
	t.Helper()
	for n := range uint64(100_000) {
		if armNamed(r, SelectArms(r, n, 0)) == name {
			return n
		}
	}
	t.Fatalf("no call is of the arm %q", name)
	return 0
}

func armNamed(r *Route, set ArmSet) string {
	for i, a := range ListArms(r) {
		if set>>(i+1)&1 != 0 {
			return a.Name
		}
	}
	return ""
}

// TestArms checks, for each state of the targets, which target gets a call that belongs to an arm
// or to no arm.
func TestArms(t *testing.T) {
	const (
		free = "free"
		full = "full"
		out  = "out"
	)
	at := func(upstream string, tier int) config.Deployment {
		return config.Deployment{Upstream: upstream, Tier: tier}
	}
	two := []config.Deployment{at("a", 0), armDeployment("b", 10, 0)}
	pair := []config.Deployment{at("a", 0), armDeployment("b", 10, 0), {Upstream: "c", Traffic: two[1].Traffic, Arm: "b"}}
	three := []config.Deployment{at("a", 0), armDeployment("b", 10, 0), armDeployment("c", 10, 0)}
	cloud := []config.Deployment{at("a", 0), armDeployment("b", 10, 0), at("c", 1)}
	both := []config.Deployment{at("a", 0), at("c", 1), armDeployment("d", 10, 1)}
	for name, c := range map[string]struct {
		deployments []config.Deployment
		state       map[string]string
		of          string // the call's arm
		tried       string
		busy, queue bool
		want        string
	}{
		"no arm":                             {two, nil, "", "", false, false, "a"},
		"no arm, full":                       {two, map[string]string{"a": full}, "", "", false, false, "full"},
		"no arm, full, and it may wait":      {two, map[string]string{"a": full}, "", "", false, true, "full"},
		"no arm, out":                        {two, map[string]string{"a": out}, "", "", false, false, "b"},
		"no arm, tried":                      {two, nil, "", "a", false, false, "b"},
		"no arm, refused by the engine":      {two, nil, "", "a", true, false, "none"},
		"the arm":                            {two, nil, "b", "", false, false, "b"},
		"the arm, and the others are out":    {two, map[string]string{"a": out}, "b", "", false, false, "b"},
		"the arm is full":                    {two, map[string]string{"b": full}, "b", "", false, false, "a"},
		"the arm is full, and it may wait":   {two, map[string]string{"b": full}, "b", "", false, true, "a"},
		"the arm is out":                     {two, map[string]string{"b": out}, "b", "", false, false, "a"},
		"the arm was tried":                  {two, nil, "b", "b", false, false, "a"},
		"the arm was busy":                   {two, nil, "b", "b", true, false, "a"},
		"both are full":                      {two, map[string]string{"a": full, "b": full}, "b", "", false, false, "full"},
		"the arm is full, and the rest out":  {two, map[string]string{"a": out, "b": full}, "b", "", false, false, "full"},
		"all are out":                        {two, map[string]string{"a": out, "b": out}, "b", "", false, false, "none"},
		"a group of two":                     {pair, map[string]string{"b": full}, "b", "", false, false, "c"},
		"a group of two, one tried":          {pair, nil, "b", "c", false, false, "b"},
		"two arms, one is out":               {three, map[string]string{"b": out}, "b", "", false, false, "a"},
		"two arms, nothing else":             {three, map[string]string{"a": out, "b": out}, "b", "", false, false, "c"},
		"a tier behind it, full":             {cloud, map[string]string{"a": full}, "", "", false, false, "c"},
		"a tier behind it, out":              {cloud, map[string]string{"a": out}, "", "", false, false, "c"},
		"a tier behind it, out, too":         {cloud, map[string]string{"a": out, "c": out}, "", "", false, false, "b"},
		"a tier behind the arm":              {cloud, map[string]string{"b": full}, "b", "", false, false, "a"},
		"a tier behind the arm and the rest": {cloud, map[string]string{"a": full, "b": full}, "b", "", false, false, "c"},
		"the arm, and the rest full":         {cloud, map[string]string{"a": full}, "b", "", false, false, "b"},
		"an arm of a tier that waits":        {both, nil, "d", "", false, false, "a"},
		"an arm of a tier that serves":       {both, map[string]string{"a": full}, "d", "", false, false, "d"},
		"no arm of a tier that serves":       {both, map[string]string{"a": full}, "", "", false, false, "c"},
	} {
		for _, policy := range []string{
			config.PolicyLeastLoaded, config.PolicyRoundRobin,
		} {
			t.Run(name+", "+policy, func(t *testing.T) {
				p := plan(t, upstream("a", 1), upstream("b", 1), upstream("c", 1), upstream("d", 1))
				m := tiered("m", slices.Clone(c.deployments)...)
				m.Policy = policy
				r := lookup(t, table(t, p, m), "m")
				q := Query{
					Now: t0, Overflow: !c.queue, Busy: c.busy, Arms: SelectArms(r, numberInArm(t, r, c.of), 0), Prefix: []uint64{1, 2, 3},
				}
				for name, s := range c.state {
					u := p.Upstream(name)[0]
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
				}
				if c.tried != "" {
					q.Exclude = append(q.Exclude, p.Upstream(c.tried)[0].ID())
				}
				l, target, err := r.Acquire(&q)
				got := "none"
				if _, isFull := errors.AsType[*FullError](err); isFull {
					got = "full"
				} else if err == nil {
					got = target.Upstream.Name()
					l.Release(upstreams.OutcomeOK)
					own, missed := FindMissedArm(r, q.Arms, target)
					if want := c.of == "b" && target.Arm != "b" || c.of == "" && target.Arm != ""; missed != want || missed && own != c.of {
						t.Errorf("at %s, a call of %q misses %q, %v", got, c.of, own, missed)
					}
				} else if !errors.Is(err, ErrNoUpstream) {
					t.Errorf("got the error %v, want ErrNoUpstream", err)
				}
				if got != c.want {
					t.Errorf("the call goes to %s, want %s", got, c.want)
				}
			})
		}
	}
}

// TestShares checks that an arm receives its share of all calls, and that it receives the same
// calls at every edge and after every reload. If a share grows, the arm keeps the calls that it
// received before.
func TestShares(t *testing.T) {
	const calls = 20_000
	rapid.Check(t, func(rt *rapid.T) {
		p := plan(t, upstream("a", 1), upstream("b", 1), upstream("c", 1))
		first := config.Percent(rapid.Float64Range(0, 60).Draw(rt, "first"))
		second := config.Percent(rapid.Float64Range(0, 40).Draw(rt, "second"))
		more := min(100-second, first+config.Percent(rapid.Float64Range(0, 40).Draw(rt, "more")))
		shares := func(first config.Percent) *Route {
			return lookup(t, table(t, p, tiered("m", config.Deployment{Upstream: "a"}, armDeployment("b", first, 0), armDeployment("c", second, 0))), "m")
		}
		r, again, wider := shares(first), shares(first), shares(more)
		n := map[string]int{}
		seed := rapid.Uint64().Draw(rt, "seed")
		for i := range uint64(calls) {
			number := ConversationHash("key", fmt.Appendf(nil, "%d %d", seed, i))
			of := armNamed(r, SelectArms(r, number, 0))
			if n[of]++; of != armNamed(again, SelectArms(again, number, 0)) {
				rt.Fatal("two edges differ")
			}
			if of == "b" && armNamed(wider, SelectArms(wider, number, 0)) != "b" {
				rt.Fatal("a call has left an arm that has grown")
			}
		}
		for name, want := range map[string]config.Percent{"b": first, "c": second} {
			share := float64(want) / 100
			if got, margin := float64(n[name]), 6*math.Sqrt(calls*share*(1-share))+1; math.Abs(got-calls*share) > margin {
				rt.Errorf("%v of %d calls are of an arm with %v", got, calls, want)
			}
		}
	})
}

// TestArmsNeedConsent checks that a call never belongs to an arm whose upstreams its key may not
// use.
func TestArmsNeedConsent(t *testing.T) {
	away := upstream("away", 1)
	away.External = true
	p := plan(t, upstream("a", 1), away)
	f := &config.File{
		Upstreams: []config.Upstream{upstream("a", 1), away},
		Models:    []config.Model{tiered("m", config.Deployment{Upstream: "a"}, armDeployment("away", 100, 0))},
	}
	table, err := BuildTable(f, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := lookup(t, table, "m")
	for tiers, want := range map[TierSet]string{0: "", 1: "away", 2: ""} {
		if got := armNamed(r, SelectArms(r, 1, tiers)); got != want {
			t.Errorf("with the tiers %b the call is of %q, want %q", tiers, got, want)
		}
	}
}

// TestCapacityOfArms checks that Capacity counts the slots that any call may use. An arm's slots
// count only if there are no other slots.
func TestCapacityOfArms(t *testing.T) {
	p := plan(t, upstream("a", 3), upstream("b", 5))
	r := lookup(t, table(t, p, tiered("m", config.Deployment{Upstream: "a"}, armDeployment("b", 10, 0))), "m")
	if c := r.PoolCapacity(upstreams.PoolText, t0); c.Total != 3 {
		t.Errorf("Capacity = %+v, want a total of 3", c)
	}
	b := p.Upstream("b")[0]
	for name, want := range map[string]int{"": 0, "b": 5} {
		if got := r.UsableSlots(b, &Query{Now: t0, Arms: SelectArms(r, numberInArm(t, r, name), 0)}); got.Slots != want || got.None {
			t.Errorf("a call of %q finds %+v", name, got)
		}
	}
	p.Upstream("a")[0].SetMode(upstreams.ModeDrain)
	if c := r.PoolCapacity(upstreams.PoolText, t0); c.Total != 5 {
		t.Errorf("Capacity = %+v, want a total of 5", c)
	}
	if got := r.UsableSlots(b, &Query{Now: t0, Arms: SelectArms(r, numberInArm(t, r, ""), 0)}); got.Slots != 5 {
		t.Errorf("as a last resort it finds %+v", got)
	}
}
