package status

// Threshold is a threshold above which a measurement counts as a problem. The verdict and the page
// apply it to the last minute. The alerts in .deploy/alerts.yaml apply the same threshold to longer
// periods.
type Threshold struct {
	Alert string
	Most  float64 // a share of the calls, or seconds
	Least int     // minimum number of calls; one or two calls are not a problem
}

// Thresholds contains all thresholds. Attempts applies to attempts at an upstream, even if a retry
// succeeded. TTFT and Queue apply to the 95th percentile, which is not affected by a single slow
// stream among 20.
var Thresholds = struct{ Failed, Attempts, Full, TTFT, Queue Threshold }{
	Failed:   Threshold{"PenstockErrors", 0.02, 3},
	Attempts: Threshold{"PenstockUpstreamFails", 0.02, 3},
	Full:     Threshold{"PenstockFull", 0.05, 3},
	TTFT:     Threshold{"PenstockTTFTHigh", 2, 20},
	Queue:    Threshold{"PenstockQueueing", 1, 5},
}

const minMajorityCalls = 5

// isMajority reports whether n calls are at least half of all calls.
func isMajority(n, all int) bool { return n >= minMajorityCalls && 2*n >= all }

func (b *Threshold) shareExceeds(n, all int) bool {
	return n >= b.Least && float64(n) > b.Most*float64(all)
}

func (b *Threshold) quantileExceeds(millis float64, n int) bool {
	return n >= b.Least && millis > 1000*b.Most
}
