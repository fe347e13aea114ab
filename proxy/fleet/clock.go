package fleet

import (
	"sync"
	"time"
)

// storeClock tracks the store's clock, using the times in the answers about accounts. If the
// store's clock is set forward, the store ends the leases of live edges and grants their amounts to
// other edges. Debts also decrease for the skipped time, by at most a minute's worth. If the clock
// is set back, accounts continue from their last time.
type storeClock struct {
	mu    sync.Mutex
	known bool
	// upper bound of the store's clock minus this edge's clock
	ahead  time.Duration
	jumped time.Duration // when this edge noticed that the clock was set forward, by this edge's clock
	ever   bool
}

// clockJump is the minimum jump that counts as setting the clock forward. It is longer than the
// time by which a late message can shorten a lease.
const clockJump = 2 * time.Second

// setForward processes a reading of the store's clock, which the store took between sent and now on
// this edge's clock. answered is the time of an account's last answer. setForward reports whether
// the clock was set forward after answered. In that case, the store may have ended the leases of
// edges that have not reported since then.
func (c *storeClock) setForward(reading, sent, now, answered time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && reading-now > c.ahead+clockJump {
		c.jumped, c.ever = now, true
	}
	c.known, c.ahead = true, reading-sent
	return c.ever && answered < c.jumped && now < c.jumped+lease
}
