package plan

import (
	"cmp"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"

	"penstock/bench/result"
)

// maxEngines is the maximum size of a fleet.
const maxEngines = 512

// minPassingShare is the fraction of draws in which a fleet must meet the objectives.
const minPassingShare = 0.95

// minPassingDraws returns the number of draws in which a fleet must meet the objectives.
func minPassingDraws(draws int) int { return int(math.Ceil(minPassingShare * float64(draws))) }

// shuffledGapCount is the number of consecutive gaps in a group that a draw shuffles.
const shuffledGapCount = 64

type fleetSearch struct {
	requests   [][]request // indexed by draw
	objectives []result.Objective
	seed       uint64
}

// shuffleArrivals varies the arrivals of a trace by shuffling the gaps within each group of
// consecutive requests. The load over time and the bursts remain, but affect different requests.
// Draw 0 is the unchanged trace.
func shuffleArrivals(trace []request, seed uint64, n int) []request {
	if n == 0 {
		return trace
	}
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	out := slices.Clone(trace)
	var timed []*request
	for i := range out {
		if out[i].after < 0 {
			timed = append(timed, &out[i])
		}
	}
	gaps := make([]float64, len(timed))
	for i := 1; i < len(timed); i++ {
		gaps[i] = timed[i].at - timed[i-1].at
	}
	for part := range slices.Chunk(gaps[1:], shuffledGapCount) {
		rng.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
	}
	for i := 1; i < len(timed); i++ {
		timed[i].at = timed[i-1].at + gaps[i]
	}
	return out
}

func (s *fleetSearch) simulate(k *EngineKind, policy string, engines, n int, speed float64) clientOutcome {
	f, err := newFleet(slices.Repeat([]*EngineKind{k}, engines), policy, s.seed+uint64(n))
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return f.summarizeCalls(f.playRequests(filterServable(k, s.requests[n]), speed))
}

func filterServable(k *EngineKind, requests []request) []request {
	return filterRequests(requests, k.canServe)
}

// filterRequests returns the requests for which keep returns true. A request that followed an
// omitted request now follows the predecessor of the omitted request. If there is no predecessor,
// it arrives when the omitted request would have arrived.
func filterRequests(requests []request, keep func(*request) bool) []request {
	out := make([]request, 0, len(requests))
	// new index of each request; for an omitted request, new index of its predecessor
	at := make([]int, len(requests))
	for i, r := range requests {
		if before := r.after; before >= 0 {
			r.at, r.after = requests[before].at, at[before]
		}
		if at[i] = r.after; keep(&r) {
			at[i] = len(out)
			out = append(out, r)
		}
	}
	return out
}

func (s *fleetSearch) meetsObjectives(o clientOutcome) bool {
	return !slices.ContainsFunc(s.objectives, func(b result.Objective) bool { return o.p99[b.Measure] > b.Limit })
}

// requiredEngines returns the smallest number of engines that meets the objectives in a draw. The
// search starts at guess. If even maxEngines engines are not enough, it returns a number greater
// than maxEngines.
func (s *fleetSearch) requiredEngines(k *EngineKind, policy string, n, guess int) int {
	meets := func(engines int) bool { return s.meetsObjectives(s.simulate(k, policy, engines, n, 1)) }
	low, high := 0, maxEngines+1 // low misses the objectives; high meets them or is too large
	for at, step := guess, 1; at > low && at < high; step *= 2 {
		if meets(at) {
			high, at = at, at-step
		} else {
			low, at = at, min(at+step, maxEngines)
		}
	}
	for low+1 < high {
		if mid := (low + high) / 2; meets(mid) {
			high = mid
		} else {
			low = mid
		}
	}
	return high
}

// Row is the result for one kind of engine with one policy.
type Row struct {
	Engine string `json:"engine"`
	Policy string `json:"policy"`
	// Engines is the number of engines needed to meet the objectives in 95 % of the draws, or null
	// if even the largest fleet misses them.
	Engines *int `json:"engines"`
	// Least and Most are the extremes over all draws.
	Least int `json:"least"`
	Most  int `json:"most"`
	// P99 contains the p99 of each measure in ms, for a fleet of Engines engines or, if Engines is
	// null, for the largest fleet. CachedShare is the fraction of input tokens that were cached.
	// Imbalance is the number of requests at the busiest engine divided by the mean.
	P99         map[string]Interval `json:"p99_ms"`
	CachedShare Interval            `json:"cached_share"`
	Imbalance   Interval            `json:"imbalance"`
	// Room is the factor by which the load may grow before an objective is missed. It is null for
	// all policies except the best one for each kind.
	Room *Interval `json:"room"`
	// TooLong is the number of requests omitted because they do not fit in an engine of this kind.
	TooLong int `json:"too_long"`
	// PriceHour is the price of the fleet, or null if there is no price.
	PriceHour *float64 `json:"price_hour"`
	// Tied is true if the draws do not show that this policy needs more engines than the best
	// policy for this kind.
	Tied bool `json:"tied"`

	needs []int // indexed by draw
	kind  *EngineKind
}

// Interval contains the median, the 5th and the 95th percentile over the draws.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

func medianInterval(values []float64) Interval {
	slices.Sort(values)
	at := func(q float64) float64 { return values[int(math.Ceil(q*float64(len(values))))-1] }
	return Interval{at(0.5), at(0.05), at(0.95)}
}

// forEachDraw calls f for each draw, in parallel on all CPUs.
func (s *fleetSearch) forEachDraw(f func(n int)) {
	var all sync.WaitGroup
	free := make(chan struct{}, runtime.GOMAXPROCS(0))
	for n := range s.requests {
		free <- struct{}{}
		all.Go(func() {
			defer func() { <-free }()
			f(n)
		})
	}
	all.Wait()
}

func (s *fleetSearch) resultRow(k *EngineKind, policy string) *Row {
	row := &Row{Engine: k.Name, Policy: policy, P99: map[string]Interval{}, kind: k}
	for i := range s.requests[0] {
		if !k.canServe(&s.requests[0][i]) {
			row.TooLong++
		}
	}
	if row.TooLong == len(s.requests[0]) {
		return row
	}
	needs := make([]int, len(s.requests))
	if needs[0] = s.requiredEngines(k, policy, 0, 1); needs[0] > maxEngines {
		for m, v := range s.simulate(k, policy, maxEngines, 0, 1).p99 {
			row.P99[m] = Interval{v, v, v}
		}
		return row
	}
	s.forEachDraw(func(n int) {
		if n > 0 {
			needs[n] = s.requiredEngines(k, policy, n, needs[0])
		}
	})
	row.needs = slices.Clone(needs)
	slices.Sort(needs)
	row.Least, row.Most = needs[0], needs[len(needs)-1]
	engines := needs[minPassingDraws(len(needs))-1]
	if engines > maxEngines {
		return row
	}
	row.Engines = &engines
	if k.Price > 0 {
		row.PriceHour = new(float64(engines) * k.Price)
	}
	outcomes := make([]clientOutcome, len(s.requests))
	s.forEachDraw(func(n int) { outcomes[n] = s.simulate(k, policy, engines, n, 1) })
	column := func(of func(*clientOutcome) float64) Interval {
		values := make([]float64, len(outcomes))
		for i := range outcomes {
			values[i] = of(&outcomes[i])
		}
		return medianInterval(values)
	}
	for m := range outcomes[0].p99 {
		row.P99[m] = column(func(o *clientOutcome) float64 { return o.p99[m] })
	}
	row.CachedShare = column(func(o *clientOutcome) float64 { return o.cached })
	row.Imbalance = column(func(o *clientOutcome) float64 { return o.imbalance })
	return row
}

// loadHeadroom returns the factor by which the load of a fleet may grow. The load is increased by
// speeding up the trace. The factor is below 1 in draws in which the fleet misses the objectives.
func (s *fleetSearch) loadHeadroom(k *EngineKind, policy string, engines int) *Interval {
	values := make([]float64, len(s.requests))
	s.forEachDraw(func(n int) {
		low, high := 1.0/8, 8.0
		for high/low > 1.01 {
			if mid := math.Sqrt(low * high); s.meetsObjectives(s.simulate(k, policy, engines, n, mid)) {
				low = mid
			} else {
				high = mid
			}
		}
		values[n] = low
	})
	return new(medianInterval(values))
}

// falsePositiveRate is the accepted probability of a false positive.
const falsePositiveRate = 0.05

// minDraws is the number of draws needed to show a difference. The agreement of only five draws
// could still be chance.
const minDraws = 6

// areTied reports whether the draws fail to show which of two rows needs fewer engines. It
// considers the draws in which the rows differ. If these draws favour both rows about equally
// often, the rows are tied (sign test). The same draws are used for both rows. If there are too few
// draws for the test, two rows are tied only if they need the same number of engines in every draw.
func areTied(a, b *Row) bool {
	if a.Engines == nil || b.Engines == nil {
		return false
	}
	if len(a.needs) < minDraws {
		return slices.Equal(a.needs, b.needs)
	}
	fewer, differ := 0, 0
	for i, n := range a.needs {
		if n != b.needs[i] {
			differ++
		}
		if n < b.needs[i] {
			fewer++
		}
	}
	// probabilities that exactly i draws, and that at most i draws, favour the same row by chance
	one, all := math.Pow(0.5, float64(differ)), 0.0
	for i := range min(fewer, differ-fewer) + 1 {
		all += one
		one *= float64(differ-i) / float64(i+1)
	}
	return 2*all > falsePositiveRate
}

// rankRows orders the rows for one kind. The best row and the rows tied with it come first, in the
// order in which they were tried. All other rows follow.
func rankRows(rows []*Row) {
	tried := slices.Clone(rows)
	slices.SortStableFunc(rows, compareRows)
	best := rows[0]
	for _, r := range rows {
		r.Tied = areTied(best, r)
	}
	slices.SortStableFunc(rows, func(a, b *Row) int {
		switch {
		case a.Tied && b.Tied:
			return cmp.Compare(slices.Index(tried, a), slices.Index(tried, b))
		case a.Tied:
			return -1
		case b.Tied:
			return 1
		}
		return 0
	})
}

// compareRows orders rows by number of engines, then by the sum of Least and Most, and then by the
// time to the first token. The lowest values come first.
func compareRows(a, b *Row) int {
	many := func(r *Row) int {
		if r.Engines == nil {
			return maxEngines + 1
		}
		return *r.Engines
	}
	return cmp.Or(cmp.Compare(many(a), many(b)), cmp.Compare(a.Least+a.Most, b.Least+b.Most),
		cmp.Compare(a.P99[result.TTFT].Median, b.P99[result.TTFT].Median))
}
