package fleet

import (
	"sync"
	"time"
)

// storeClock is what an edge knows of its store's clock from the accounts' answers. If the clock is
// set forward, the store ends leases of edges that are alive, and gives away what they hold. Time
// then pays at once what it would have paid until then, which is at most a minute's limit. If the
// clock is set back, accounts continue from where they were.
type storeClock struct {
	mu     sync.Mutex
	known  bool
	ahead  time.Duration // of this edge's own, at most
	jumped time.Duration // when it was seen to have been set forward, by this edge's own
	ever   bool          // it was
}

// clockJump is longer than the time that a lease can lose because an edge sends late.
const clockJump = 2 * time.Second

// setForward takes a reading of the store's clock that was made between two times of this edge's
// own clock. It reports whether the store's clock was set forward after an account's last answer.
// Then the store may have ended leases whose holders have not reported since.
func (c *storeClock) setForward(reading, sent, now, answered time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && reading-now > c.ahead+clockJump {
		c.jumped, c.ever = now, true
	}
	c.known, c.ahead = true, reading-sent
	return c.ever && answered < c.jumped && now < c.jumped+lease
}
