package call

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
)

// routeOf returns a route with an engine of one slot in each of the given tiers.
func routeOf(t *testing.T, tiers ...int) *routing.Route {
	t.Helper()
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var ups []config.Upstream
	m := config.Model{ID: "m"}
	for i, tier := range tiers {
		ups = append(ups, config.Upstream{
			Name: fmt.Sprint(i), URL: fmt.Sprint("http://127.0.0.1:", 20000+i), Engine: "openai", Weight: 1, Concurrency: config.Concurrency{Shared: 1},
		})
		m.Deployments = append(m.Deployments, config.Deployment{Upstream: fmt.Sprint(i), Served: "m", Tier: tier, When: config.DeploymentUsedWhenFull})
	}
	plan, err := set.PlanChanges(ups, nil)
	if err != nil {
		t.Fatal(err)
	}
	table, err := routing.BuildTable(&config.File{Models: []config.Model{m}}, plan, nil)
	if err != nil {
		t.Fatal(err)
	}
	route, _ := table.Lookup([]byte("m"))
	return route
}

// TestAlternatives checks to which other engines a call may be sent after its attempt at one engine
// has failed.
func TestAlternatives(t *testing.T) {
	for _, c := range []struct {
		name         string
		tiers        []int // tier of each engine
		busy, tried  []int
		room, later  bool
		afterTier    []int // engines that are excluded if the call leaves the failed tier
		failedInTier int   // index of the failed engine
	}{
		{"alone", []int{0}, nil, nil, false, false, []int{0}, 0},
		{"beside a free one", []int{0, 0}, nil, nil, true, false, []int{0, 1}, 0},
		{"beside a busy one", []int{0, 0}, []int{1}, nil, false, false, []int{0, 1}, 0},
		{"beside one that was tried", []int{0, 0}, nil, []int{1}, false, false, []int{1, 0, 1}, 0},
		{"before a later tier", []int{0, 1}, nil, nil, true, true, []int{0}, 0},
		{"before a busy later tier", []int{0, 1}, []int{1}, nil, false, true, []int{0}, 0},
		{"before a later tier that was tried", []int{0, 1}, nil, []int{1}, false, false, []int{1, 0}, 0},
		{"in the last tier", []int{0, 1, 1}, nil, []int{0}, true, false, []int{0, 0, 1, 2}, 1},
		{"between tiers", []int{0, 1, 2}, nil, []int{0}, true, true, []int{0, 0, 1}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := time.Now()
			route := routeOf(t, c.tiers...)
			targets := route.Targets()
			ids := func(indexes []int) (out []upstreams.ID) {
				for _, i := range indexes {
					out = append(out, targets[i].Upstream.ID())
				}
				return out
			}
			for _, i := range c.busy {
				if _, ok := targets[i].Upstream.TryLease("", upstreams.PoolText, 0, now); !ok {
					t.Fatal("no slot is free")
				}
			}
			a := alternativeTargets{targets: targets, failed: &targets[c.failedInTier], excluded: ids(c.tried)}
			if got := a.hasFreeTarget(route, &routing.Query{Pool: upstreams.PoolText, Now: now}); got != c.room {
				t.Errorf("hasFreeTarget = %t, want %t", got, c.room)
			}
			if got := a.hasLaterTier(); got != c.later {
				t.Errorf("hasLaterTier = %t, want %t", got, c.later)
			}
			if got := a.exclusionsThroughFailedTier(); !slices.Equal(got, ids(c.afterTier)) {
				t.Errorf("excludeTier = %v, want %v", got, ids(c.afterTier))
			}
		})
	}
}
