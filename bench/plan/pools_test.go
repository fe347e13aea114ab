package plan

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"penstock/bench/load/workload"
	"penstock/bench/result"
)

// traceOfLengths returns a trace whose prompts cycle through the given lengths.
func traceOfLengths(n int, every time.Duration, in ...int) (trace []workload.TraceCall) {
	rng := rand.New(rand.NewPCG(1, 2))
	at := time.Duration(0)
	for i := range n {
		at += time.Duration(rng.ExpFloat64() * float64(every))
		trace = append(trace, workload.TraceCall{At: at, After: -1, In: in[i%len(in)], Out: 40})
	}
	return trace
}

// TestPools checks the comparison with two pools: at which length prompts are split, which kinds
// are mixed, and that each pool has exactly as many engines as it needs.
func TestPools(t *testing.T) {
	const small, big = "small:prefill=8000,token=50,slots=16,kv=8000", "big:prefill=8000,token=50,slots=16,kv=200000"
	for _, c := range []struct {
		name    string
		engines []string
		in      []int
		split   int // 0 if two pools are not better than one
		short   string
		saves   bool
	}{
		{"one length", []string{big}, []int{500}, 0, "", false},
		{"long prompts in the way", []string{big}, []int{200, 200, 200, 200, 200, 200, 200, 200, 200, 9000}, 200, "big", true},
		{"nothing to gain", []string{big}, []int{500, 510}, 500, "big", false},
		{"kinds without a price", []string{big, small}, []int{200, 200, 200, 9000}, 200, "big", true},
		{"a cheaper kind for short prompts", []string{big + "@4", small + "@1"}, []int{200, 200, 200, 9000}, 200, "small", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := planInput{policies: policies[:1]}
			q.search.objectives = []result.Objective{{Measure: result.TTFT, Limit: 1800}}
			for _, text := range c.engines {
				q.kinds = append(q.kinds, kind(t, text))
			}
			requests := newRequests(traceOfLengths(400, 50*time.Millisecond, c.in...), 1)
			q.search.requests = [][]request{requests, shuffleArrivals(requests, 0, 1)}
			a := new(Cmd).planFleets(&q)
			i := slices.IndexFunc(a.Pools, func(p *Pools) bool { return p.Engine == "big" })
			if i < 0 || c.split == 0 {
				if i >= 0 || c.split != 0 {
					t.Fatalf("%+v", a.Pools)
				}
				return
			}
			p := a.Pools[i]
			if p.Split != c.split || p.Short.Engine != c.short || p.Long.Engine != "big" || p.Engines != p.Short.Engines+p.Long.Engines ||
				p.Short.Requests+p.Long.Requests != len(requests) || c.saves != (p.cost() < p.onePoolCost()) {
				t.Errorf("%+v: %s", p, p.text())
			}
			for _, pool := range []struct {
				Pool
				keep func(*request) bool
			}{{p.Short, func(r *request) bool { return r.in <= c.split }}, {p.Long, func(r *request) bool { return r.in > c.split }}} {
				part, missed := q.search.filteredSearch(pool.keep), 0
				for n := range part.requests {
					if !part.meetsObjectives(part.simulate(pool.kind, pool.Policy, pool.Engines, n, 1)) {
						t.Errorf("%d %s are not enough in draw %d", pool.Engines, pool.Pool.Engine, n)
					}
					if pool.Engines == 1 || !part.meetsObjectives(part.simulate(pool.kind, pool.Policy, pool.Engines-1, n, 1)) {
						missed++
					}
				}
				if missed == 0 {
					t.Errorf("%d %s are more than enough", pool.Engines, pool.Pool.Engine)
				}
			}
		})
	}
}
