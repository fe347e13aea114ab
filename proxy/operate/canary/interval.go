package canary

import (
	"cmp"
	"math"
	"slices"

	"penstock/proxy/telemetry/observe"
)

// interval is an estimate with a confidence interval for the true value.
type interval struct{ low, estimate, high float64 }

func (a interval) minus(b interval) interval {
	at := a.estimate - b.estimate
	return interval{at - math.Hypot(a.estimate-a.low, b.high-b.estimate), at, at + math.Hypot(a.high-a.estimate, b.estimate-b.low)}
}

// quantileInterval estimates the logarithm of a quantile, so that differences are ratios. z is the
// half-width of the interval in standard deviations.
func quantileInterval(s observe.Distribution, rank, z float64) interval {
	s = slices.SortedFunc(slices.Values(s), func(a, b [2]uint64) int { return cmp.Compare(a[0], b[0]) })
	n := float64(s.Count())
	margin := z*math.Sqrt(n*rank*(1-rank)) + 0.5
	at := func(position float64) float64 {
		before := 0.0
		for i, b := range s {
			if count := float64(b[1]); position < before+count || i == len(s)-1 {
				// Interpolate within the bucket, assuming uniformly distributed values.
				inside := min(max((position-before)/count, 0), 1) - 0.5
				return math.Log(observe.BucketMiddle(b[0])) + inside*observe.LogBucketWidth
			}
			before += float64(b[1])
		}
		return math.NaN()
	}
	return interval{at(n*rank - margin), at(n * rank), at(n*rank + margin)}
}

func shareInterval(k, n uint64, z float64) interval {
	all, p := float64(n), float64(k)/float64(n)
	middle := (p + z*z/(2*all)) / (1 + z*z/all)
	margin := z / (1 + z*z/all) * math.Sqrt(p*(1-p)/all+z*z/(4*all*all))
	return interval{max(0, min(middle-margin, p)), p, min(1, max(middle+margin, p))}
}
