package listen

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/telemetry/guard"
)

// These constants limit lingering. A client that sends its entire body before it reads the response
// must do so within these limits.
const (
	lingerTime         = 5 * time.Second
	maxLingerBytes     = 256 << 20
	defaultLingerConns = 128  // used unless many descriptors are free
	ampleLingerConns   = 1024 // used if enough descriptors are free
	minLingerConns     = 16   // used even if the listener's maximum is small
)

var discardBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// lingerThenClose closes the sending side of c and discards received bytes in the background. It
// then calls end. If the client has reset the connection, or if too many connections are lingering,
// lingerThenClose returns false without calling end.
func (l *Listener) lingerThenClose(c rawConn, end func() error) bool {
	if !l.lingerSlots.tryAcquire() {
		return false
	}
	if c.CloseWrite() != nil {
		l.lingerSlots.release()
		return false
	}
	go l.guard.RunWithRecover(guard.PlaceLinger, func() {
		defer l.lingerSlots.release()
		defer end() //nolint:errcheck // no caller is left
		l.guard.PanicIfInjected(guard.PlaceLinger)
		discardRequest(c, time.Now().Add(l.lingerTime))
	})
	return true
}

// discardRequest reads until EOF, until it has read maxLingerBytes, or until the given time.
func discardRequest(c rawConn, until time.Time) {
	_ = c.SetReadDeadline(until)
	buf := discardBuffers.Get().(*[]byte)
	defer discardBuffers.Put(buf)
	for left := maxLingerBytes; left > 0; {
		n, err := c.Read(*buf)
		if err != nil {
			return
		}
		left -= n
	}
}

type lingerSemaphore struct {
	max  atomic.Int64
	held atomic.Int64
}

func (g *lingerSemaphore) tryAcquire() bool {
	if g.held.Add(1) > g.max.Load() {
		g.held.Add(-1)
		return false
	}
	return true
}

func (g *lingerSemaphore) release() { g.held.Add(-1) }
