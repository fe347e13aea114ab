package result

import "math"

// LeastSamples returns how many independent samples a quantile, in percent, needs before anything is
// said of it: five beyond it, since fewer show the chance of a few requests, and never fewer than
// thirty. So a median needs 30, p90 50, p95 100 and p99 500. It is the rule of verdicts, of pairs and
// of comparisons.
func LeastSamples(percent float64) int {
	const beyond, least = 5, 30
	return max(least, int(math.Round(beyond/(1-percent/100))))
}
