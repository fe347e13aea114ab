package limit

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
)

const (
	// retryWindowSeconds is the period of the retry budget in seconds. The period includes the
	// current second.
	retryWindowSeconds = 10
	// minRetries is the number of retries that are always allowed in a period, even if there are
	// few calls.
	minRetries = 3
)

// RetryBudget is the retry budget shared by all models and upstreams. It prevents retries from
// doubling the load if all engines fail. Its methods may be called by multiple goroutines.
type RetryBudget struct {
	epoch time.Time
	calls secondCounts

	mu      sync.Mutex // makes TakeRetry exact; CountCall does not lock it
	retries secondCounts
}

// NewRetryBudget returns an unused budget. Its clock starts at now, and later calls must not pass
// an earlier time.
func NewRetryBudget(now time.Time) *RetryBudget { return &RetryBudget{epoch: now} }

// CountCall counts a call. It does not lock a mutex.
func (r *RetryBudget) CountCall(now time.Time) { r.calls.add(r.currentSecond(now)) }

// TakeRetry takes one retry from the budget. It returns false if the budget is exhausted. In the
// last ten seconds, retries are limited to the given share of the calls or to minRetries, whichever
// is larger.
func (r *RetryBudget) TakeRetry(now time.Time, share config.Percent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := r.currentSecond(now)
	if r.retries.sum(second) >= max(minRetries, share.Of(r.calls.sum(second))) {
		return false
	}
	r.retries.add(second)
	return true
}

// Usage returns the number of retries in the last ten seconds, and the number allowed.
func (r *RetryBudget) Usage(now time.Time, share config.Percent) (used, allowed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := r.currentSecond(now)
	return r.retries.sum(second), max(minRetries, share.Of(r.calls.sum(second)))
}

// currentSecond returns the number of the current second. The numbers start at retryWindowSeconds,
// so that a zero cell counts as expired.
func (r *RetryBudget) currentSecond(now time.Time) uint32 {
	return uint32(max(now.Sub(r.epoch), 0)/time.Second) + retryWindowSeconds
}

// secondCounts counts events per second. The upper half of a cell is the second and the lower half
// is the count, so that both halves change atomically.
type secondCounts [retryWindowSeconds]atomic.Uint64

func (c *secondCounts) add(second uint32) {
	cell := &c[second%retryWindowSeconds]
	for {
		old := cell.Load()
		// If a caller is late, its event is counted in a later second. Counting an event for too
		// long is better than not counting it.
		next := old + 1
		if uint32(old>>32) < second {
			next = uint64(second)<<32 | 1
		}
		if cell.CompareAndSwap(old, next) {
			return
		}
	}
}

// sum returns the count over the retryWindowSeconds seconds that end with the given second.
func (c *secondCounts) sum(second uint32) (n int64) {
	for i := range c {
		v := c[i].Load()
		if at := uint32(v >> 32); at+retryWindowSeconds > second && at <= second {
			n += int64(uint32(v))
		}
	}
	return n
}
