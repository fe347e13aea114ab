package load

import (
	"math"
	"math/rand/v2"
	"slices"

	"penstock/bench/load/client"
	"penstock/bench/load/workload"
	"penstock/bench/result"
)

// Parameters of the bootstrap intervals.
const (
	intervalConfidence = 0.95
	bootstrapResamples = 2000
	maxBootstrapDraws  = 20_000_000
)

func (f *findings) compareTargets(second result.Target, seconds float64) *result.Comparison {
	out := &result.Comparison{
		Target: second, Total: f.summary(func(k gapKey) bool { return k.target == 1 }, seconds),
		Differences: []result.Difference{},
	}
	for _, m := range []string{result.TTFT, result.TPOT, result.E2EL} {
		pairs := f.valuePairs(m)
		if m == result.E2EL {
			out.Pairs = len(pairs)
		}
		if len(pairs) < 2 {
			continue
		}
		out.Differences = append(out.Differences, targetDifferences(m, pairs, f.s.Seed)...)
	}
	return out
}

func (f *findings) valuePairs(measure string) [][2]float64 {
	byPair := map[int]*[2]float64{}
	for i := range f.samples {
		s := &f.samples[i]
		v := s.Latency(measure)
		if s.Pair < 0 || s.Stage == warmupStage || s.Turn > 0 || !s.Completed() || v == client.MissingValue {
			continue
		}
		p := byPair[s.Pair]
		if p == nil {
			p = &[2]float64{math.NaN(), math.NaN()}
			byPair[s.Pair] = p
		}
		p[s.Target] = float64(v) / 1e6
	}
	var out [][2]float64
	for _, p := range byPair {
		if !math.IsNaN(p[0]) && !math.IsNaN(p[1]) {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b [2]float64) int { return slices.Compare(a[:], b[:]) })
	return out
}

// targetDifferences compares two targets, given pairs of values of one measure. For the mean, it
// draws bootstrap samples of pairs, which cancels effects common to both targets. For quantiles, it
// draws separate bootstrap samples for each target.
func targetDifferences(measure string, pairs [][2]float64, seed uint64) []result.Difference {
	rng := rand.New(rand.NewPCG(seed, 7))
	n := len(pairs)
	var sides [2][]float64
	for _, p := range pairs {
		sides[0], sides[1] = append(sides[0], p[0]), append(sides[1], p[1])
	}
	for i := range sides {
		slices.Sort(sides[i])
	}
	rounds := max(200, min(bootstrapResamples, maxBootstrapDraws/n))
	mean := func(list []float64) (sum float64) {
		for _, v := range list {
			sum += v
		}
		return sum / float64(len(list))
	}
	means := make([]float64, rounds)
	for i := range means {
		for range n {
			p := &pairs[rng.IntN(n)]
			means[i] += (p[0] - p[1]) / float64(n)
		}
	}
	out := []result.Difference{newDifference(measure, "mean", mean(sides[0]), mean(sides[1]), means)}
	for _, q := range []struct {
		name string
		p    float64
	}{{"median", 0.5}, {"p90", 0.9}, {"p99", 0.99}} {
		if n < result.MinSamples(100*q.p) {
			continue
		}
		drawn := make([]float64, bootstrapResamples)
		for i := range drawn {
			drawn[i] = bootstrapQuantile(rng, sides[0], q.p) - bootstrapQuantile(rng, sides[1], q.p)
		}
		out = append(out, newDifference(measure, q.name, quantile(sides[0], q.p), quantile(sides[1], q.p), drawn))
	}
	return out
}

// bootstrapQuantile draws the q-quantile of a bootstrap sample without drawing the sample itself.
// This is possible because the rank of an order statistic of n draws has a beta distribution.
func bootstrapQuantile(rng *rand.Rand, sorted []float64, q float64) float64 {
	n := float64(len(sorted))
	k := math.Floor(q*(n-1)) + 1
	a, b := workload.GammaVariate(rng, k), workload.GammaVariate(rng, n+1-k)
	return sorted[min(int(a/(a+b)*n), len(sorted)-1)]
}

// quantile returns the q-quantile of sorted values, interpolated between ranks.
func quantile(sorted []float64, q float64) float64 {
	rank := q * float64(len(sorted)-1)
	i := int(rank)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (sorted[i+1]-sorted[i])*(rank-float64(i))
}

func newDifference(measure, statistic string, first, second float64, drawn []float64) result.Difference {
	slices.Sort(drawn)
	d := result.Difference{
		Measure: measure, Statistic: statistic, First: first, Second: second, Delta: first - second,
		Confidence: intervalConfidence,
	}
	d.Low, d.High = quantile(drawn, (1-intervalConfidence)/2), quantile(drawn, (1+intervalConfidence)/2)
	d.Significant = d.Low > 0 || d.High < 0
	return d
}
