package fleet

import (
	"sync"
	"time"
)

// storeClock is what an edge knows of the clock of its store, by the answers of accounts. Where it
// is set forward the store ends leases of edges that are alive, and gives away what they hold; time
// pays at once what it would have paid until then, which is a minute's limit at most. Where it is
// set back accounts go on from where they were.
type storeClock struct {
	mu     sync.Mutex
	known  bool
	ahead  time.Duration // of this edge's own, at most
	jumped time.Duration // when it was seen to have been set forward, by this edge's own
	ever   bool          // it was
}

// clockJump is more than a lease loses to what an edge sends late.
const clockJump = 2 * time.Second

// setForward takes a reading of the clock, which was made between two times of this edge's own. It
// reports whether the clock was set forward after an account's last answer, so that the store may
// have ended leases that have not told what they hold since.
func (c *storeClock) setForward(reading, sent, now, answered time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known && reading-now > c.ahead+clockJump {
		c.jumped, c.ever = now, true
	}
	c.known, c.ahead = true, reading-sent
	return c.ever && answered < c.jumped && now < c.jumped+lease
}
