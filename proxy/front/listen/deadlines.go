package listen

import (
	"sync/atomic"
	"time"

	"penstock/config/instant"
)

// The deadlines below are of type instant.Time. They are atomic because shutting down a TLS
// connection sets a deadline on another goroutine.

// readDeadline is the read deadline of a connection. fasthttp sets it three times per request, but
// setting the socket's deadline costs more than parsing the headers. The socket's deadline may
// therefore be earlier than the wanted deadline. When the socket's deadline expires early,
// Conn.read continues.
type readDeadline struct {
	wanted atomic.Int64
	held   atomic.Int64
}

func (d *readDeadline) want(s sock, t time.Time) {
	by := int64(instant.Of(t))
	d.wanted.Store(by)
	if held := d.held.Load(); by != 0 && (held == 0 || by < held) {
		d.hold(s, by)
	}
}

func (d *readDeadline) hold(s sock, by int64) {
	d.held.Store(by)
	_ = s.SetReadDeadline(instant.Time(by).Std()) // if the connection is closed, the read fails
}

func (d *readDeadline) restore(s sock) { d.hold(s, d.wanted.Load()) }

func (d *readDeadline) passed() bool { return instant.Time(d.wanted.Load()).Passed() }

// writeDeadline is the write deadline of a connection; see Conn.SetWriteTimeout.
type writeDeadline struct {
	held    atomic.Int64
	timeout atomic.Int64 // timeout of a write in nanoseconds; 0 if the caller sets deadlines
}

// extend moves the deadline to now plus timeout. It does so only if less than 7/8 of the timeout is
// left, because moving the deadline costs more than a small write.
func (d *writeDeadline) extend(s sock, now instant.Time, timeout time.Duration) {
	by := now.After(timeout)
	if instant.Time(d.held.Load()) >= by.After(-timeout/8) {
		return
	}
	d.held.Store(int64(by))
	_ = s.SetWriteDeadline(by.Std()) // if the connection is closed, the write fails
}

func (d *writeDeadline) clear() {
	d.timeout.Store(0)
	d.held.Store(0)
}
