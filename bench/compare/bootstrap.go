package compare

import (
	"math"
	"math/rand/v2"
	"slices"

	"penstock/bench/result"
)

// replicates is how often a bootstrap draws: enough that the bounds of a 99 % interval are more
// than single draws.
const replicates = 600

// interval holds the bounds of a bootstrap interval.
type interval struct{ low, high float64 }

// holdsZero says that no difference is among what is plausible.
func (i *interval) holdsZero() bool { return i.low <= 0 && i.high >= 0 }

// intervalOf takes the bounds from sorted draws.
func intervalOf(draws []float64, confidence float64) *interval {
	slices.Sort(draws)
	tail := (1 - confidence) / 2
	at := func(q float64) float64 {
		return draws[min(len(draws)-1, max(0, int(math.Round(q*float64(len(draws)-1)))))]
	}
	return &interval{at(tail), at(1 - tail)}
}

// poisson draws a count of the given mean.
func poisson(rng *rand.Rand, mean float64) float64 {
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

// resampler draws distributions like one that was measured: every bucket's count becomes a Poisson
// count around it.
type resampler struct {
	d      *result.Distribution
	weight float64 // independent samples per sample: below 1 where samples come in bunches
	counts []float64
	rng    *rand.Rand
}

// newResampler makes a resampler. independent is how many of the samples are independent of each
// other; the gaps of one request are not.
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

// draw makes one distribution and reads statistics from it, in the order of keys.
func (r *resampler) draw(keys []result.Key, out []float64) {
	total, sum := 0.0, 0.0
	for i, b := range r.d.Buckets {
		n := poisson(r.rng, b[1]*r.weight)
		r.counts[i] = n
		total += n
		sum += n * b[0]
	}
	for i, k := range keys {
		switch {
		case total == 0:
			out[i] = k.Of(r.d)
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

// quantile is the value of the bucket that holds the sample of that rank, from 1.
func (r *resampler) quantile(rank float64) float64 {
	for i, n := range r.counts {
		if rank -= n; rank <= 0 {
			return r.d.Buckets[i][0]
		}
	}
	return r.d.Buckets[len(r.d.Buckets)-1][0]
}

// fewSamples is the number of independent samples below which no interval is given.
const fewSamples = 10

// latencyIntervals are the intervals of second - first for each key; nil where there are too few
// samples.
func latencyIntervals(first, second *result.Distribution, requests [2]int, keys []result.Key,
	confidence float64,
) []*interval {
	out := make([]*interval, len(keys))
	if first == nil || second == nil || min(first.Count, second.Count, int64(requests[0]),
		int64(requests[1])) < fewSamples {
		return out
	}
	a, b := newResampler(first, requests[0], 1), newResampler(second, requests[1], 2)
	draws := make([][]float64, len(keys))
	x, y := make([]float64, len(keys)), make([]float64, len(keys))
	for range replicates {
		a.draw(keys, x)
		b.draw(keys, y)
		for i := range keys {
			draws[i] = append(draws[i], y[i]-x[i])
		}
	}
	for i := range keys {
		out[i] = intervalOf(draws[i], confidence)
	}
	return out
}

// seriesInterval is the interval of the difference of two rates, from their values per interval of
// time. Neighbours are alike, so they are drawn in blocks. The draws are centred on the rates that
// the reports give.
func seriesInterval(first, second []float64, difference, confidence float64) *interval {
	if min(len(first), len(second)) < fewSamples {
		return nil
	}
	rng := rand.New(rand.NewPCG(3, 0x9e3779b97f4a7c15))
	spread := mean(second) - mean(first)
	var draws []float64
	for range replicates {
		draws = append(draws, blockMean(rng, second)-blockMean(rng, first)-spread+difference)
	}
	return intervalOf(draws, confidence)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// blockMean is the mean of as many values, drawn as blocks of neighbours.
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

// shareInterval is the interval of the difference of two shares, k of n.
func shareInterval(k1, n1, k2, n2, confidence float64) *interval {
	if min(n1, n2) < fewSamples {
		return nil
	}
	rng := rand.New(rand.NewPCG(4, 0x9e3779b97f4a7c15))
	var draws []float64
	for range replicates {
		draws = append(draws, min(1, poisson(rng, k2)/n2)-min(1, poisson(rng, k1)/n1))
	}
	return intervalOf(draws, confidence)
}
