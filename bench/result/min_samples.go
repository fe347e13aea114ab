package result

import "math"

// MinSamples returns how many independent samples are needed to judge a percentile: at least
// thirty, and enough for five samples beyond the percentile. With fewer samples, the percentile
// would depend on a few random requests. A median needs 30 samples, p90 needs 50, p95 needs 100 and
// p99 needs 500. Verdicts, pairs and comparisons use this rule.
func MinSamples(percent float64) int {
	const beyond, least = 5, 30
	return max(least, int(math.Round(beyond/(1-percent/100))))
}
