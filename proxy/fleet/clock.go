package fleet

import (
	"sync"
	"time"
)

// storeClock tracks the store's clock by the answers about accounts. If that clock is set forward,
// the store ends the leases of living edges and grants the amounts that they hold to other edges.
// The skipped period also pays off debts at once, at most a minute's limit. If the clock is set
// back, accounts continue from their last time.
type storeClock struct {
	mu    sync.Mutex
	known bool
	// the maximum time by which the store's clock was ahead of this edge's clock
	ahead  time.Duration
	jumped time.Duration // when a jump forward was noticed, by this edge's clock
	ever   bool          // a jump has been noticed
}

// clockJump is longer than the time by which a late message can shorten a lease.
const clockJump = 2 * time.Second

// setForward processes a reading of the store's clock that was made between two times on this
// edge's clock. It reports whether the store's clock was set forward after an account's last
// answer. If so, the store may have ended leases whose holders have not reported since.
func (c *storeClock) setForward(reading, sent, now, answered time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && reading-now > c.ahead+clockJump {
		c.jumped, c.ever = now, true
	}
	c.known, c.ahead = true, reading-sent
	return c.ever && answered < c.jumped && now < c.jumped+lease
}
