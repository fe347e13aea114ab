package limit

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// window is the span that limits are given for and, at the same time, the burst: an idle key may use a whole minute's
// worth at once.
const window = int64(time.Minute)

// maxCost bounds what one charge can add to a key's debt, whatever an engine reports as usage.
const maxCost = int64(24 * time.Hour)

// cost returns what n of limit per minute are worth in nanoseconds. It rounds down, so that limit units always fit
// into the window; the error is below a nanosecond a charge.
func cost(n, limit int64) int64 {
	if n <= 0 || limit <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(window))
	if hi >= uint64(limit) {
		return maxCost // the quotient does not fit into 64 bits
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, uint64(maxCost)))
}

// meter is a GCRA cell: the time at which all that was taken will have been paid for, in nanoseconds since an epoch.
type meter struct{ paid atomic.Int64 }

// take takes one of limit per minute. wait is zero when it was taken and otherwise the exact time until it can be.
func (m *meter) take(now, limit int64) (wait int64) {
	c := cost(1, limit)
	for {
		old := m.paid.Load()
		next := max(old, now) + c
		debt := next - now
		if debt > window {
			return debt - window
		}
		if m.paid.CompareAndSwap(old, next) {
			return 0
		}
	}
}
