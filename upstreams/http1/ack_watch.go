package http1

import (
	"time"

	"penstock/upstreams/http1/socket"
)

// defaultAckTimeout is long enough for a few retransmissions on a slow, lossy path. It is shorter
// than the default of 10 s after which a stream commits, so that the edge can still retry on
// another engine. Kernels give up only after about 15 minutes.
const defaultAckTimeout = 5 * time.Second

// ackWatch schedules checks that the engine's host acknowledges a request. It covers only the time
// before the response. HostWatch detects hosts that disappear later.
type ackWatch struct {
	checkAt time.Time // time of the next check; zero if the host has acknowledged all bytes
}

// begin starts the watch once a request has been written.
func (a *ackWatch) begin(now time.Time, timeout time.Duration) { a.checkAt = now.Add(timeout) }

func (a *ackWatch) isDue(now time.Time) bool { return !a.checkAt.IsZero() && !now.Before(a.checkAt) }

// isAckedInTime reports whether the host has acknowledged bytes within the timeout, or owes no
// acknowledgement. It also schedules the next check.
func (a *ackWatch) isAckedInTime(c *conn, now time.Time, timeout time.Duration) bool {
	silence, waiting := c.measureSilence(socket.UnackedMillis)
	a.checkAt = time.Time{}
	if waiting {
		a.checkAt = now.Add(timeout - min(silence, timeout) + 10*time.Millisecond)
	}
	return silence < timeout
}

// wasWrittenWithin reports whether the request may have been written less than d ago. It returns
// false for an acknowledged request.
func (a *ackWatch) wasWrittenWithin(d, timeout time.Duration) bool {
	return !a.checkAt.IsZero() && time.Since(a.checkAt.Add(-timeout)) <= d
}

// earlierTime returns the earlier time. The zero time means never.
func earlierTime(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
