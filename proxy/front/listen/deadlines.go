package listen

import (
	"sync/atomic"
	"time"

	"penstock/config/instant"
)

// Deadlines are instant.Times. They are atomic because a shutdown that closes a TLS connection sets
// a deadline from another goroutine.

// readDeadline is the time at which reads fail. fasthttp sets three deadlines for each request, and
// setting a socket's deadline costs more than parsing a head. So the socket may keep an earlier
// deadline than the wanted one. When the socket's deadline expires, Conn.read checks the clock and
// continues.
type readDeadline struct {
	wanted atomic.Int64
	held   atomic.Int64 // the socket's deadline
}

// want sets the read deadline to t.
func (d *readDeadline) want(s sock, t time.Time) {
	by := int64(instant.Of(t))
	d.wanted.Store(by)
	if held := d.held.Load(); by != 0 && (held == 0 || by < held) {
		d.hold(s, by)
	}
}

// hold sets the deadline of the socket itself.
func (d *readDeadline) hold(s sock, by int64) {
	d.held.Store(by)
	_ = s.SetReadDeadline(instant.Time(by).Std()) // on a closed connection the read fails anyway
}

// restore sets the socket's deadline to the wanted one.
func (d *readDeadline) restore(s sock) { d.hold(s, d.wanted.Load()) }

// passed reports whether the wanted deadline has passed.
func (d *readDeadline) passed() bool { return instant.Time(d.wanted.Load()).Passed() }

// writeDeadline is the time at which writes fail; see Conn.SetWriteTimeout.
type writeDeadline struct {
	held    atomic.Int64 // the socket's deadline
	timeout atomic.Int64 // for one write, in nanoseconds; 0: the caller sets deadlines
}

// extend moves the deadline to now plus timeout. Moving it costs more than a small write, so extend
// does so only if less than seven eighths of timeout are left.
func (d *writeDeadline) extend(s sock, now instant.Time, timeout time.Duration) {
	by := now.After(timeout)
	if instant.Time(d.held.Load()) >= by.After(-timeout/8) {
		return
	}
	d.held.Store(int64(by))
	_ = s.SetWriteDeadline(by.Std()) // on a closed connection the write fails anyway
}

// clear makes the caller responsible for the write deadline.
func (d *writeDeadline) clear() {
	d.timeout.Store(0)
	d.held.Store(0)
}
