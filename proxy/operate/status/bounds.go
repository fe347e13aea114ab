package status

// Bound is a threshold above which a measurement of a model or an upstream counts as a problem. The
// verdict and the page apply it to the last minute. The alerts in .deploy/alerts.yaml apply the
// same thresholds to their own periods.
type Bound struct {
	Alert string
	Most  float64 // a share of the calls, or seconds
	Least int     // fewer calls than this are not reported, because one or two are no problem
}

// Bounds holds all thresholds. Failed applies to calls. Attempts applies to attempts at an
// upstream, even if the call then succeeded at its retry. TTFT and Queue apply to the 95th
// percentile, which a single slow stream among 20 does not change.
var Bounds = struct{ Failed, Attempts, Full, TTFT, Queue Bound }{
	Failed:   Bound{"PenstockErrors", 0.02, 3},
	Attempts: Bound{"PenstockUpstreamFails", 0.02, 3},
	Full:     Bound{"PenstockFull", 0.05, 3},
	TTFT:     Bound{"PenstockTTFTHigh", 2, 20},
	Queue:    Bound{"PenstockQueueing", 1, 5},
}

// leastMost is the minimum number of calls that most applies to.
const leastMost = 5

// most reports whether n calls of all are at least half of them, which means that clients mostly
// get no answer.
func most(n, all int) bool { return n >= leastMost && 2*n >= all }

// share reports whether n calls out of all are too many.
func (b *Bound) share(n, all int) bool { return n >= b.Least && float64(n) > b.Most*float64(all) }

// quantile reports whether the 95th percentile of n times, in milliseconds, is too long.
func (b *Bound) quantile(millis float64, n int) bool { return n >= b.Least && millis > 1000*b.Most }
