package upstreams_test

import (
	"errors"
	"testing"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

// TestBusyInARoute checks, for every policy, that a busy upstream gets no calls if its route has
// other upstreams. If it is the only upstream, it counts as full or, once it is down, as
// unavailable.
func TestBusyInARoute(t *testing.T) {
	const up, busy, down, stalled = upstreams.StateUp, upstreams.StateBusy, upstreams.StateDown, upstreams.StateStalled
	for _, policy := range []string{config.PolicyLeastLoaded, config.PolicyTwoChoices, config.PolicyRoundRobin, config.PolicyPrefixAffinity} {
		for _, c := range []struct {
			a, b        upstreams.State
			goes        string // the upstream that gets each call; empty means that the call is refused
			full, ready bool
			total, free int
			silent      int
		}{
			{busy, up, "b", false, true, 2, 2, 0},
			{up, busy, "a", false, true, 2, 2, 0},
			{busy, down, "", true, true, 2, 0, 1},
			{busy, busy, "", true, true, 4, 0, 2},
			{busy, stalled, "", true, true, 2, 0, 1},
			{down, down, "", false, false, 0, 0, 0},
		} {
			set, err := upstreams.NewSet(upstreams.Options{})
			if err != nil {
				t.Fatal(err)
			}
			ups := []config.Upstream{}
			for _, name := range []string{"a", "b"} {
				ups = append(ups, config.Upstream{Name: name, URL: "http://127.0.0.1:1/" + name, Engine: "openai", Concurrency: config.Concurrency{Shared: 2}})
			}
			plan, err := set.PlanChanges(ups, nil)
			if err != nil {
				t.Fatal(err)
			}
			plan.Upstream("a")[0].SetState(c.a)
			plan.Upstream("b")[0].SetState(c.b)
			model := config.Model{ID: "m", Policy: policy, Deployments: []config.Deployment{{Upstream: "a", Served: "s"}, {Upstream: "b", Served: "s"}}}
			table, err := routing.BuildTable(&config.File{Models: []config.Model{model}}, plan, nil)
			if err != nil {
				t.Fatal(err)
			}
			r, now := table.Routes()[0], time.Now()
			if got := r.PoolCapacity(upstreams.PoolText, now); got.Total != c.total || got.Available != c.free || r.IsReady(now) != c.ready {
				t.Errorf("%s, %v and %v: %+v, ready %t", policy, c.a, c.b, got, r.IsReady(now))
			}
			for range 3 {
				lease, target, err := r.Acquire(&routing.Query{Now: now})
				var full *routing.FullError
				switch {
				case c.goes != "" && err == nil:
					if target.Upstream.Name() != c.goes {
						t.Errorf("%s, %v and %v: to %s", policy, c.a, c.b, target.Upstream.Name())
					}
					lease.Release(upstreams.OutcomeOK)
				case c.goes != "" || err == nil, c.full != errors.As(err, &full), !c.full && !errors.Is(err, routing.ErrNoUpstream):
					t.Errorf("%s, %v and %v: Acquire: %v; want upstream %q, or full %t", policy, c.a, c.b, err, c.goes, c.full)
				case c.full && full.Silent != c.silent:
					t.Errorf("%s, %v and %v: %d do not answer their probes", policy, c.a, c.b, full.Silent)
				}
			}
			room := r.UsableSlots(plan.Upstream("a")[0], &routing.Query{Now: now})
			if room.None == (c.full || c.goes != "") || c.a == busy && room.Slots > 0 {
				t.Errorf("%s, %v and %v: UsableSlots = %+v, want none: %t", policy, c.a, c.b, room, !c.full && c.goes == "")
			}
		}
	}
}
