package compare

import (
	"math"
	"math/rand/v2"
	"slices"

	"penstock/bench/result"
)

// bootstrapReplicates is the number of bootstrap samples.
const bootstrapReplicates = 600

type interval struct{ low, high float64 }

// containsZero reports whether the interval contains zero. If it does, the two values may be equal.
func (i *interval) containsZero() bool { return i.low <= 0 && i.high >= 0 }

// intervalScale determines the width of intervals. Any row of a comparison could show a difference
// by chance, so the intervals must be wide enough for all of them to hold simultaneously. The
// bootstrap samples are too few to contain such extreme quantiles. Instead, the bounds of the 95 %
// interval are moved outwards by a factor derived from the normal distribution.
type intervalScale struct{ factor float64 }

// newIntervalScale returns the scale with which the given number of intervals hold simultaneously
// at the given confidence.
func newIntervalScale(confidence float64, intervals int) intervalScale {
	tail := (1 - confidence) / float64(max(1, intervals)) / 2
	return intervalScale{normalQuantile(tail) / normalQuantile(bootstrapTailShare)}
}

// bootstrapTailShare is the fraction of samples beyond each bound.
const bootstrapTailShare = 0.025

// normalQuantile returns how many standard deviations above the mean a value must be so that only
// the fraction tail of a normal distribution is larger.
func normalQuantile(tail float64) float64 { return math.Sqrt2 * math.Erfinv(1-2*tail) }

// bootstrapInterval returns the interval computed from bootstrap samples. It sorts draws.
func (c intervalScale) bootstrapInterval(draws []float64) *interval {
	slices.Sort(draws)
	at := func(q float64) float64 { return draws[int(math.Round(q*float64(len(draws)-1)))] }
	middle := at(0.5)
	return &interval{
		low:  middle - (middle-at(bootstrapTailShare))*c.factor,
		high: middle + (at(1-bootstrapTailShare)-middle)*c.factor,
	}
}

// poissonCount returns a Poisson-distributed count.
func poissonCount(rng *rand.Rand, mean float64) float64 {
	if mean > 40 {
		return max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	n, p, limit := -1.0, 1.0, math.Exp(-mean)
	for p > limit {
		p *= rng.Float64()
		n++
	}
	return max(0, n)
}

// resampler draws bootstrap samples from a distribution. For each sample, it replaces each bucket's
// count with a Poisson-distributed count.
type resampler struct {
	d *result.Distribution
	// independent samples divided by all samples; less than 1 if samples are correlated
	weight float64
	counts []float64
	rng    *rand.Rand
}

// newResampler returns a resampler for d. independent is the number of independent samples in d.
// The gaps in one request, for example, are not independent of each other.
func newResampler(d *result.Distribution, independent int, seed uint64) *resampler {
	w := 1.0
	if n := float64(d.Count); float64(independent) < n && independent > 0 {
		w = float64(independent) / n
	}
	return &resampler{
		d: d, weight: w, counts: make([]float64, len(d.Buckets)),
		rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
	}
}

func (r *resampler) drawSample(keys []result.Key, out []float64) {
	total, sum := 0.0, 0.0
	for i, b := range r.d.Buckets {
		n := poissonCount(r.rng, b[1]*r.weight)
		r.counts[i] = n
		total += n
		sum += n * b[0]
	}
	for i, k := range keys {
		switch {
		case total == 0:
			out[i] = k.FromDistribution(r.d)
		case k.Stat == "mean":
			out[i] = sum / total
		default:
			p := k.Percent
			if k.Stat == "median" {
				p = 50
			}
			out[i] = r.quantile(p/100*(total-1) + 1)
		}
	}
}

// quantile returns the value of the bucket that contains the sample of the given rank, counting
// from 1.
func (r *resampler) quantile(rank float64) float64 {
	for i, n := range r.counts {
		if rank -= n; rank <= 0 {
			return r.d.Buckets[i][0]
		}
	}
	return r.d.Buckets[len(r.d.Buckets)-1][0]
}

// minSamples returns how many independent samples are needed to judge the statistic of a key.
func minSamples(k result.Key) int {
	if k.Stat != "p" {
		return result.MinSamples(50)
	}
	return result.MinSamples(k.Percent)
}

// minRateSamples is the number of requests or time intervals needed to judge fractions and rates.
const minRateSamples = 20

// latencyIntervals returns, for each key, the interval of the difference (second minus first). An
// interval is nil if there are too few samples. requests contains the number of independent samples
// in each distribution.
func latencyIntervals(first, second *result.Distribution, requests [2]int, keys []result.Key, c intervalScale) []*interval {
	out := make([]*interval, len(keys))
	samples := independentSamples(first, second, requests)
	if samples < minSamples(result.Key{Stat: "mean"}) {
		return out
	}
	a, b := newResampler(first, requests[0], 1), newResampler(second, requests[1], 2)
	draws := make([][]float64, len(keys))
	x, y := make([]float64, len(keys)), make([]float64, len(keys))
	for range bootstrapReplicates {
		a.drawSample(keys, x)
		b.drawSample(keys, y)
		for i := range keys {
			draws[i] = append(draws[i], y[i]-x[i])
		}
	}
	for i, k := range keys {
		if samples >= minSamples(k) {
			out[i] = c.bootstrapInterval(draws[i])
		}
	}
	return out
}

// independentSamples returns the number of independent samples in the smaller distribution. All
// gaps in one request count as one sample.
func independentSamples(first, second *result.Distribution, requests [2]int) int {
	return int(min(first.Count, second.Count, int64(requests[0]), int64(requests[1])))
}

// seriesInterval returns the interval of the difference between two rates, given their values per
// time interval. Adjacent values are correlated, so they are drawn in blocks. The bootstrap samples
// are shifted so that their centre is the reported difference.
func seriesInterval(first, second []float64, difference float64, c intervalScale) *interval {
	if min(len(first), len(second)) < minRateSamples {
		return nil
	}
	rng := rand.New(rand.NewPCG(3, 0x9e3779b97f4a7c15))
	spread := mean(second) - mean(first)
	var draws []float64
	for range bootstrapReplicates {
		draws = append(draws, blockMean(rng, second)-blockMean(rng, first)-spread+difference)
	}
	return c.bootstrapInterval(draws)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// blockMean draws len(v) values from v, in blocks of adjacent values, and returns their mean.
func blockMean(rng *rand.Rand, v []float64) float64 {
	block := max(1, int(math.Round(math.Cbrt(float64(len(v))))))
	sum, n := 0.0, 0
	for n < len(v) {
		at := rng.IntN(len(v))
		for i := 0; i < block && n < len(v); i++ {
			sum += v[(at+i)%len(v)]
			n++
		}
	}
	return sum / float64(n)
}

// shareInterval returns the interval of the difference between the fractions k1/n1 and k2/n2.
func shareInterval(k1, n1, k2, n2 float64, c intervalScale) *interval {
	if min(n1, n2) < minRateSamples {
		return nil
	}
	rng := rand.New(rand.NewPCG(4, 0x9e3779b97f4a7c15))
	var draws []float64
	for range bootstrapReplicates {
		draws = append(draws, min(1, poissonCount(rng, k2)/n2)-min(1, poissonCount(rng, k1)/n1))
	}
	return c.bootstrapInterval(draws)
}
