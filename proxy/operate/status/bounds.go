package status

// Bound is a threshold above which a measurement counts as a problem. The verdict and the page
// apply it to the last minute. The alerts in .deploy/alerts.yaml apply the same threshold to their
// own periods.
type Bound struct {
	Alert string
	Most  float64 // a share of the calls, or seconds
	Least int     // minimum number of calls; one or two calls are not a problem
}

// Bounds contains all thresholds. Attempts applies to attempts at an upstream, even if a retry
// succeeded. TTFT and Queue apply to the 95th percentile, which is not affected by a single slow
// stream among 20.
var Bounds = struct{ Failed, Attempts, Full, TTFT, Queue Bound }{
	Failed:   Bound{"PenstockErrors", 0.02, 3},
	Attempts: Bound{"PenstockUpstreamFails", 0.02, 3},
	Full:     Bound{"PenstockFull", 0.05, 3},
	TTFT:     Bound{"PenstockTTFTHigh", 2, 20},
	Queue:    Bound{"PenstockQueueing", 1, 5},
}

const leastMost = 5

// most reports whether n calls are at least half of all calls.
func most(n, all int) bool { return n >= leastMost && 2*n >= all }

func (b *Bound) share(n, all int) bool { return n >= b.Least && float64(n) > b.Most*float64(all) }

func (b *Bound) quantile(millis float64, n int) bool { return n >= b.Least && millis > 1000*b.Most }
