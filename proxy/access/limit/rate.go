package limit

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// ratePeriod is the period of all rates. It is also the maximum burst, because an idle key may use
// the limit for a whole minute immediately.
const ratePeriod = int64(time.Minute)

// maxCost is the maximum cost of one charge, even if an engine reports more usage.
const maxCost = int64(24 * time.Hour)

// costNanos returns the cost of n units in nanoseconds, for a limit per minute. It rounds down, so
// that the number of units allowed by the limit always fits into a ratePeriod. The rounding error
// is less than a nanosecond per charge.
func costNanos(n, limit int64) int64 {
	if n <= 0 || limit <= 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(n), uint64(ratePeriod))
	if hi >= uint64(limit) {
		return maxCost // the quotient would need more than 64 bits
	}
	q, _ := bits.Div64(hi, lo, uint64(limit))
	return int64(min(q, uint64(maxCost)))
}

// gcraLimiter implements the generic cell rate algorithm. tat is the theoretical arrival time, when
// the effect of all admitted units ends. It is in nanoseconds since an epoch.
type gcraLimiter struct{ tat atomic.Int64 }

// admit consumes one unit under a per-minute limit and returns 0. If no unit is available, it
// returns the exact time until one is available.
func (m *gcraLimiter) admit(now, limit int64) (wait int64) {
	c := costNanos(1, limit)
	for {
		old := m.tat.Load()
		next := max(old, now) + c
		debt := next - now
		if debt > ratePeriod {
			return debt - ratePeriod
		}
		if m.tat.CompareAndSwap(old, next) {
			return 0
		}
	}
}

func (m *gcraLimiter) refund(limit int64) { m.tat.Add(-costNanos(1, limit)) }
