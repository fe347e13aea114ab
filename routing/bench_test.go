package routing

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"penstock/config"
	"penstock/upstreams"
)

// probedPlan creates upstreams that share one engine, and waits until all of them are up. The
// engine answers every probe.
func probedPlan(t testing.TB, names ...string) *upstreams.ChangePlan {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = io.WriteString(w, "vllm:num_requests_running 3\n")
			return
		}
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"served-m","object":"model"}]}`)
	}))
	t.Cleanup(engine.Close)
	set, err := upstreams.NewSet(upstreams.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var specs []config.Upstream
	for _, name := range names {
		u := upstream(name, 1000)
		u.URL, u.Engine = engine.URL, "vllm"
		specs = append(specs, u)
	}
	p, err := set.PlanChanges(specs, nil)
	if err != nil {
		t.Fatal(err)
	}
	set.Commit(p)
	t.Cleanup(func() { _ = set.Close(context.Background()) })
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	set.WaitFirstProbes(ctx, p)
	for _, name := range names {
		if u := p.Upstream(name)[0]; !u.IsEligibleIn(upstreams.StateUp, upstreams.MomentOf(time.Now())) || !u.Models.Serves("served-m") {
			t.Fatalf("%s is %s, want it up and serving served-m", name, u.State())
		}
	}
	return p
}

// routeOf32 returns a route over 32 upstreams that are up.
func routeOf32(t testing.TB, policy string) *Route {
	t.Helper()
	var names []string
	for i := range 32 {
		names = append(names, fmt.Sprint("u", i))
	}
	return lookup(t, table(t, probedPlan(t, names...), model("m", policy, names...)), "m")
}

var policies = []string{config.PolicyLeastLoaded, config.PolicyRoundRobin}

// BenchmarkPick measures the choice among 32 upstreams, without the lease. All of them are up, list
// their models and report their load. A pick with 40 known prompt blocks may take two microseconds
// and must not allocate.
func BenchmarkPick(b *testing.B) {
	blocks := randomBlocks(40)
	for _, c := range []struct {
		name, policy   string
		known, learned bool
	}{
		{"round_robin", config.PolicyRoundRobin, false, false},
		{"cold", "", false, false},
		{"warm", "", true, false},
		{"learned", "", false, true},
		{"warm, learned", "", true, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := routeOf32(b, c.policy)
			q := Query{Now: time.Now(), Prefix: blocks, Tokens: 5000, Session: 7}
			if c.learned {
				q.Now = t0
				for i := range r.targets {
					answered(b, r, i, speedNeeds, time.Millisecond)
				}
			}
			if c.known {
				r.prefixIndex.recordPrompt(blocks[:20], &r.targets[3], 1)
				r.prefixIndex.recordPrompt(blocks, &r.targets[7], 7)
			}
			b.ReportAllocs()
			from := targetSearch{Query: q}
			for b.Loop() {
				from.Rand++
				if r.prefixIndex != nil {
					r.prefixIndex.lookUp(q.Prefix, r.targets, &from.cached)
				}
				if best, _ := r.pickTarget(&from, int(from.Rand%32)); best == nil {
					b.Fatal("nobody was picked")
				}
			}
		})
	}
}

// BenchmarkAcquire measures a pick and the acquisition and release of the lease.
func BenchmarkAcquire(b *testing.B) {
	blocks := HashBlocks(nil, 1, conversation(1))
	for _, policy := range policies {
		b.Run(policy, func(b *testing.B) {
			r := routeOf32(b, policy)
			b.ReportAllocs()
			q := Query{Now: time.Now(), Prefix: blocks}
			for b.Loop() {
				q.Rand++
				l, _, err := r.Acquire(&q)
				if err != nil {
					b.Fatal(err)
				}
				l.Release(upstreams.OutcomeOK)
			}
		})
	}
}

func TestPickDoesNotAllocate(t *testing.T) {
	blocks := HashBlocks(nil, 1, conversation(1))
	for _, policy := range policies {
		r := routeOf32(t, policy)
		q := Query{Now: time.Now(), Prefix: blocks}
		for _, known := range []bool{false, true} {
			if known && r.prefixIndex != nil {
				r.prefixIndex.recordPrompt(blocks, &r.targets[7], 0)
			}
			from := targetSearch{Query: q}
			n := testing.AllocsPerRun(100, func() {
				from.Rand++
				if r.prefixIndex != nil {
					r.prefixIndex.lookUp(q.Prefix, r.targets, &from.cached)
				}
				_, _ = r.pickTarget(&from, int(from.Rand%32))
			})
			if n != 0 {
				t.Errorf("%s: %v allocations for a pick", policy, n)
			}
		}
	}
}

// TestCapacityCosts checks that Capacity allocates nothing per target. The edge computes this sum
// every second for every model.
func TestCapacityCosts(t *testing.T) {
	r := routeOf32(t, policies[0])
	now := time.Now()
	if n := testing.AllocsPerRun(100, func() { r.PoolCapacity(upstreams.PoolText, now) }); n > 8 {
		t.Errorf("%v allocations for %d targets", n, len(r.targets))
	}
}
