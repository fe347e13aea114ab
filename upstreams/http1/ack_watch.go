package http1

import (
	"time"

	"penstock/upstreams/http1/socket"
)

// defaultAckTimeout allows some retransmissions on a slow and lossy path. It is below the default
// 10 s after which a stream commits, so that another engine can still be asked. Kernels give up
// only after a quarter of an hour.
const defaultAckTimeout = 5 * time.Second

// ackWatch decides when to check that the engine's host acknowledges a request. It covers the
// time before the reply; HostWatch handles hosts that vanish later.
type ackWatch struct {
	checkAt time.Time // zero: the host has acknowledged everything
}

// begin starts watching a written request.
func (a *ackWatch) begin(now time.Time, timeout time.Duration) { a.checkAt = now.Add(timeout) }

// due reports whether to check now.
func (a *ackWatch) due(now time.Time) bool { return !a.checkAt.IsZero() && !now.Before(a.checkAt) }

// inTime reports whether the host has acknowledged the request within the timeout, and sets the
// time of the next check.
func (a *ackWatch) inTime(c *conn, now time.Time, timeout time.Duration) bool {
	silence, waiting := c.ask(socket.UnackedFor)
	a.checkAt = time.Time{}
	if waiting {
		a.checkAt = now.Add(timeout - min(silence, timeout) + 10*time.Millisecond)
	}
	return silence < timeout
}

// writtenWithin reports whether the request may have been written less than d ago. For an
// acknowledged request it returns false.
func (a *ackWatch) writtenWithin(d, timeout time.Duration) bool {
	return !a.checkAt.IsZero() && time.Since(a.checkAt.Add(-timeout)) <= d
}

// earlier returns the earlier of two times. Zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
