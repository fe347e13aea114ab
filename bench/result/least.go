package result

import "math"

// LeastSamples returns how many independent samples a percentile needs before it is judged: enough
// for five samples beyond it, because fewer show only the chance of a few requests, and at least
// thirty. A median thus needs 30, p90 50, p95 100 and p99 500. Verdicts, pairs and comparisons use
// this rule.
func LeastSamples(percent float64) int {
	const beyond, least = 5, 30
	return max(least, int(math.Round(beyond/(1-percent/100))))
}
