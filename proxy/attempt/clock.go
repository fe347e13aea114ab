package attempt

import (
	"time"

	"penstock/config"
)

// afterFinish is how long a stream whose choices are all finished may still bring usage and [DONE].
const afterFinish = 2 * time.Second

// clock is which of a model's clocks runs for a reply.
type clock struct {
	limits  *config.Timeouts
	start   time.Time // of the call
	streams bool      // the client gets its answer as it is made
	headed  bool      // the reply's head has come, with a 200
	begun   bool      // its first event has

	sentAt     time.Time     // request written
	readAt     time.Time     // last bytes of the reply
	completeAt time.Time     // every choice had its finish reason
	blocked    time.Duration // the client held up an answer that is passed on
	until      time.Time     // the patience of who reads; zero: the limits decide
}

// deadline is when the engine's silence has lasted too long, by the limit that counts now; zero:
// never.
func (c *clock) deadline() time.Time {
	var d time.Time
	switch {
	case !c.completeAt.IsZero():
		d = c.completeAt.Add(afterFinish)
	case c.streams && !c.begun:
		d = c.sentAt.Add(c.limits.FirstEvent.D())
	case c.headed:
		d = c.readAt.Add(c.limits.Idle.D())
	}
	if !c.streams {
		d = earlier(d, c.sentAt.Add(c.limits.Answer.D()+c.blocked))
	}
	if total := c.limits.Total.D(); total > 0 {
		d = earlier(d, c.start.Add(total))
	}
	return d
}

// complete notes that every choice has its finish reason.
func (c *clock) complete() {
	if c.completeAt.IsZero() {
		c.completeAt = c.readAt
	}
}

// overdue reports whether a complete reply has had its time for usage and [DONE].
func (c *clock) overdue() bool {
	return !c.completeAt.IsZero() && late(c.completeAt.Add(afterFinish))
}

func late(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// earlier returns the earlier of two deadlines, where zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
