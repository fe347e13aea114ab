package limit

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// window is the period of limits and bursts. An idle key may use a full minute's limit at once.
const window = int64(time.Minute)

// maxCost is the maximum debt that one charge can add to a key, whatever usage an engine reports.
const maxCost = int64(24 * time.Hour)

// cost returns the price in nanoseconds of n units under a limit per minute. It rounds down, so
// that a window always has room for as many units as the limit allows. The rounding error is below
// a nanosecond per charge.
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

// gcra is a cell of the generic cell rate algorithm. It holds the theoretical arrival time (in
// nanoseconds since an epoch), at which all units taken will be paid off.
type gcra struct{ tat atomic.Int64 }

// admit takes one unit under a limit per minute and returns zero. If no unit is available, it
// returns the exact time until one is.
func (m *gcra) admit(now, limit int64) (wait int64) {
	c := cost(1, limit)
	for {
		old := m.tat.Load()
		next := max(old, now) + c
		debt := next - now
		if debt > window {
			return debt - window
		}
		if m.tat.CompareAndSwap(old, next) {
			return 0
		}
	}
}

// giveBack returns one unit that was taken under a limit per minute.
func (m *gcra) giveBack(limit int64) { m.tat.Add(-cost(1, limit)) }
