package plan

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"penstock/bench/result"
)

// Pools describes two pools, divided by prompt length (deployments[].prompt_tokens), that could
// replace a single pool.
type Pools struct {
	// Engine is the kind of the single pool, and of the pool for long prompts.
	Engine string `json:"engine"`
	// OnePool is the number of engines in the single pool. OnePoolPrice is the price of that pool,
	// or null if there is no price.
	OnePool      int      `json:"one_pool"`
	OnePoolPrice *float64 `json:"one_pool_price_hour"`
	// Split is the maximum prompt length in tokens for the pool Short. Longer prompts are routed to
	// the pool Long.
	Split int  `json:"split"`
	Short Pool `json:"short"`
	Long  Pool `json:"long"`
	// Engines is the number of engines in both pools. PriceHour is their price, or null if there is
	// no price.
	Engines   int      `json:"engines"`
	PriceHour *float64 `json:"price_hour"`
}

// Pool is one of the two pools.
type Pool struct {
	Engine   string `json:"engine"`
	Policy   string `json:"policy"`
	Requests int    `json:"requests"` // number of requests in the trace that are routed to the pool
	// Engines is the number of engines needed to meet the objectives in 95 % of the draws.
	Engines int `json:"engines"`

	kind *EngineKind
}

// splitQuantiles are the quantiles of the prompt lengths that are tried as splits.
var splitQuantiles = []float64{0.25, 0.5, 0.75, 0.9, 0.95, 0.99}

// candidateSplits returns the prompt lengths that are tried as splits. It omits lengths that would
// leave a pool empty.
func candidateSplits(requests []request) (all []int) {
	lengths := make([]int, len(requests))
	for i := range requests {
		lengths[i] = requests[i].in
	}
	slices.Sort(lengths)
	for _, q := range splitQuantiles {
		if at := lengths[int(math.Ceil(q*float64(len(lengths))))-1]; at < lengths[len(lengths)-1] {
			all = append(all, at)
		}
	}
	return slices.Compact(all)
}

// filteredSearch returns a search over the requests for which keep returns true.
func (s *fleetSearch) filteredSearch(keep func(*request) bool) *fleetSearch {
	out := &fleetSearch{objectives: s.objectives, seed: s.seed}
	for _, draw := range s.requests {
		out.requests = append(out.requests, filterRequests(draw, keep))
	}
	return out
}

// enginesForDraws returns the number of engines needed to meet the objectives in 95 % of the first
// `draws` draws. If no fleet meets them, it returns a number greater than maxEngines.
func (s *fleetSearch) enginesForDraws(k *EngineKind, policy string, draws int) int {
	if len(filterServable(k, s.requests[0])) == 0 {
		return maxEngines + 1
	}
	needs := make([]int, draws)
	if needs[0] = s.requiredEngines(k, policy, 0, 1); needs[0] > maxEngines {
		return needs[0]
	}
	first := *s
	first.requests = s.requests[:draws]
	first.forEachDraw(func(n int) {
		if n > 0 {
			needs[n] = s.requiredEngines(k, policy, n, needs[0])
		}
	})
	slices.Sort(needs)
	return needs[minPassingDraws(draws)-1]
}

// bestPools searches for the best pair of pools. The pool for long prompts uses the kind of engine
// in the row one. The pool for short prompts uses one of the kinds in all. Kinds are mixed only if
// both have a price. If no pair of pools meets the objectives, bestPools returns nil.
func (s *fleetSearch) bestPools(one *Row, all []*Row) (best *Pools) {
	best = s.bestSplit(one, all, candidateSplits(s.requests[0]), 1)
	if best == nil || len(s.requests) == 1 {
		return best
	}
	short := all[slices.IndexFunc(all, func(r *Row) bool { return r.kind == best.Short.kind })]
	// repeat the search for this split with all draws
	return s.bestSplit(one, []*Row{short}, []int{best.Split}, len(s.requests))
}

// bestSplit returns the cheapest pair of pools for the given splits and number of draws.
func (s *fleetSearch) bestSplit(one *Row, all []*Row, splits []int, draws int) (best *Pools) {
	for _, at := range splits {
		short := s.filteredSearch(func(r *request) bool { return r.in <= at })
		long := s.filteredSearch(func(r *request) bool { return r.in > at })
		down := long.enginesForDraws(one.kind, one.Policy, draws)
		for _, r := range all {
			if r.kind != one.kind && (r.kind.Price == 0 || one.kind.Price == 0) {
				continue
			}
			p := &Pools{
				Engine: one.Engine, OnePool: *one.Engines, OnePoolPrice: one.PriceHour, Split: at,
				Short: Pool{r.Engine, r.Policy, len(short.requests[0]), short.enginesForDraws(r.kind, r.Policy, draws), r.kind},
				Long:  Pool{one.Engine, one.Policy, len(long.requests[0]), down, one.kind},
			}
			if max(p.Short.Engines, p.Long.Engines) > maxEngines {
				continue
			}
			p.Engines = p.Short.Engines + p.Long.Engines
			if one.kind.Price > 0 {
				p.PriceHour = new(float64(p.Short.Engines)*r.kind.Price + float64(p.Long.Engines)*one.kind.Price)
			}
			if best == nil || p.cost() < best.cost() {
				best = p
			}
		}
	}
	return best
}

// cost returns the price of the pools. If they have no price, it returns their number of engines.
func (p *Pools) cost() float64 {
	if p.PriceHour != nil {
		return *p.PriceHour
	}
	return float64(p.Engines)
}

func (p *Pools) onePoolCost() float64 {
	if p.PriceHour != nil {
		return *p.OnePoolPrice
	}
	return float64(p.OnePool)
}

func (p *Pools) text() string {
	priced := func(price *float64) string {
		if price == nil {
			return ""
		}
		return " (" + result.NumberText(*price) + "/h)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "One pool: %d %s%s. Two pools: %d %s for prompts of up to %d tokens (%d requests), %d %s for longer ones (%d)%s: ",
		p.OnePool, p.Engine, priced(p.OnePoolPrice), p.Short.Engines, p.Short.Engine, p.Split, p.Short.Requests,
		p.Long.Engines, p.Long.Engine, p.Long.Requests, priced(p.PriceHour))
	if saved := 1 - p.cost()/p.onePoolCost(); saved > 0 {
		fmt.Fprintf(&b, "%s %% less.\n", result.NumberText(100*saved))
	} else {
		b.WriteString("a split saves nothing here.\n")
	}
	return b.String()
}

// poolAssumptions describes the effects that the numbers for pools ignore.
const poolAssumptions = "Each of two pools is played alone and has to meet the objectives itself. The edge also sends short prompts to engines for long ones, " +
	"and sessions may grow from one pool into the other: both are left out. Engines of a pool for short prompts have the same slots and room here: " +
	"give them as an --engine of their own, with a price, if a shorter context gives them more.\n"
