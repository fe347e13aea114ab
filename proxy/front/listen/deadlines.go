package listen

import (
	"sync/atomic"
	"time"

	"penstock/config/instant"
)

// The deadlines below are of type instant.Time. They are atomic because the shutdown of a TLS
// connection sets a deadline from another goroutine.

// readDeadline is the read deadline of a connection. fasthttp sets a read deadline three times per
// request, but setting the socket's deadline costs more than parsing the headers. The socket's
// deadline may therefore be earlier than the wanted deadline. When the socket's deadline expires
// early, Conn.read continues.
type readDeadline struct {
	wanted         atomic.Int64
	socketDeadline atomic.Int64
}

func (d *readDeadline) setWanted(s rawConn, t time.Time) {
	by := int64(instant.FromTime(t))
	d.wanted.Store(by)
	if held := d.socketDeadline.Load(); by != 0 && (held == 0 || by < held) {
		d.setSocketDeadline(s, by)
	}
}

func (d *readDeadline) setSocketDeadline(s rawConn, by int64) {
	d.socketDeadline.Store(by)
	_ = s.SetReadDeadline(instant.Time(by).StdTime()) // if the connection is closed, the read fails
}

func (d *readDeadline) restore(s rawConn) { d.setSocketDeadline(s, d.wanted.Load()) }

func (d *readDeadline) hasPassed() bool { return instant.Time(d.wanted.Load()).HasPassed() }

// writeDeadline is the write deadline of a connection; see Conn.SetWriteTimeout.
type writeDeadline struct {
	socketDeadline atomic.Int64
	timeout        atomic.Int64 // timeout for each write in nanoseconds; 0 if the caller sets deadlines
}

// extend moves the deadline to now plus timeout. It does so only if less than 7/8 of the timeout is
// left, because moving the deadline costs more than a small write.
func (d *writeDeadline) extend(s rawConn, now instant.Time, timeout time.Duration) {
	by := now.Add(timeout)
	if instant.Time(d.socketDeadline.Load()) >= by.Add(-timeout/8) {
		return
	}
	d.socketDeadline.Store(int64(by))
	_ = s.SetWriteDeadline(by.StdTime()) // if the connection is closed, the write fails
}

func (d *writeDeadline) clear() {
	d.timeout.Store(0)
	d.socketDeadline.Store(0)
}
