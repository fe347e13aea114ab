package limit

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/config"
)

const (
	// retrySpan is the length of the retry budget's period in seconds, including the current
	// second.
	retrySpan = 10
	// minRetries is the number of retries that the budget allows in a period even if there are few
	// calls.
	minRetries = 3
)

// Retries is the retry budget for all models and upstreams together. When all engines fail, second
// attempts must not double the engines' load. Its methods may be called from any goroutine.
type Retries struct {
	epoch time.Time
	calls secondCounts

	mu      sync.Mutex // makes Allow exact; a call without a retry never locks it
	retries secondCounts
}

// NewRetries returns a budget. Its clock starts at now, and no later call may pass an earlier time.
func NewRetries(now time.Time) *Retries { return &Retries{epoch: now} }

// Call counts a call. It takes no lock.
func (r *Retries) Call(now time.Time) { r.calls.add(r.second(now)) }

// Allow takes one retry from the budget and reports whether one was left. The retries of the last
// ten seconds, including this one, are at most the given share of the calls in that time, or three
// if that is more.
func (r *Retries) Allow(now time.Time, share config.Percent) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := r.second(now)
	if r.retries.sum(second) >= max(minRetries, share.Of(r.calls.sum(second))) {
		return false
	}
	r.retries.add(second)
	return true
}

// State returns the retries of the last ten seconds and how many the budget allows now.
func (r *Retries) State(now time.Time, share config.Percent) (used, allowed int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	second := r.second(now)
	return r.retries.sum(second), max(minRetries, share.Of(r.calls.sum(second)))
}

// second returns the number of the current second. The numbers start at retrySpan, so that a new
// cell, whose second is 0, counts as old.
func (r *Retries) second(now time.Time) uint32 {
	return uint32(max(now.Sub(r.epoch), 0)/time.Second) + retrySpan
}

// secondCounts counts events by second. A cell holds its second in the upper half and its count in
// the lower half, so both change atomically.
type secondCounts [retrySpan]atomic.Uint64

func (c *secondCounts) add(second uint32) {
	cell := &c[second%retrySpan]
	for {
		old := cell.Load()
		// even if the cell's second is later than a late caller's: it is better to count an event
		// too long than never
		next := old + 1
		if uint32(old>>32) < second {
			next = uint64(second)<<32 | 1
		}
		if cell.CompareAndSwap(old, next) {
			return
		}
	}
}

// sum returns the count in the span that ends with the given second.
func (c *secondCounts) sum(second uint32) (n int64) {
	for i := range c {
		v := c[i].Load()
		if at := uint32(v >> 32); at+retrySpan > second && at <= second {
			n += int64(uint32(v))
		}
	}
	return n
}
