package fleet

import (
	"sync"
	"time"
)

// storeClock tracks the store's clock through the times in the answers about accounts. If the
// store's clock is set forward, leases of live edges expire early, and the store grants their
// amounts to other edges. Debts also decrease by the skipped time, up to one minute. If the clock
// is set back, accounts continue from their last time.
type storeClock struct {
	mu         sync.Mutex
	hasReading bool
	// Upper bound for the difference between the store's clock and this edge's clock.
	maxAhead time.Duration
	// When this edge noticed that the clock was set forward, according to this edge's clock.
	jumpedAt  time.Duration
	hasJumped bool
}

// minClockJump is the minimum jump that counts as setting the clock forward. It exceeds the time by
// which a late message can shorten a lease.
const minClockJump = 2 * time.Second

// wasSetForward processes a reading of the store's clock, taken between sent and now on this edge's
// clock. answered is the time of an account's last answer. wasSetForward reports whether the clock
// was set forward after answered. In that case, leases of edges that have not reported since then
// may have expired.
func (c *storeClock) wasSetForward(reading, sent, now, answered time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hasReading && reading-now > c.maxAhead+minClockJump {
		c.jumpedAt, c.hasJumped = now, true
	}
	c.hasReading, c.maxAhead = true, reading-sent
	return c.hasJumped && answered < c.jumpedAt && now < c.jumpedAt+leaseTime
}
