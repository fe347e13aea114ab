package fleet

import (
	"sync"
	"time"
)

// storeClock holds what an edge knows about its store's clock from the answers about accounts. If
// the clock is set forward, the store ends the leases of living edges and grants their holds to
// other edges. Time then pays for the skipped period at once, which is at most a minute's limit. If
// the clock is set back, accounts continue from their last time.
type storeClock struct {
	mu     sync.Mutex
	known  bool
	ahead  time.Duration // the most by which the store's clock was ahead of this edge's
	jumped time.Duration // when a jump forward was noticed, on this edge's clock
	ever   bool          // a jump was noticed
}

// clockJump is longer than the time that a lease can lose because an edge sends late.
const clockJump = 2 * time.Second

// setForward processes a reading of the store's clock, which was made between two times on this
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
