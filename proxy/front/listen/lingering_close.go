package listen

import (
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/telemetry/guard"
)

// Limits on lingering. A client that reads only after it has sent its whole body still gets the
// answer, provided that it keeps sending.
const (
	lingerTime     = 5 * time.Second
	lingerBytes    = 256 << 20
	maxLingerConns = 128  // unless enough descriptors are free
	topLingerConns = 1024 // if enough descriptors are free
	minLingerConns = 16   // even if the listener's maximum is small
)

var discardBuffers = sync.Pool{New: func() any { b := make([]byte, 16<<10); return &b }}

// closeLingering closes the writing half of c, discards in the background what the client still
// sends, and then calls end. It returns false without calling end if the client has reset the
// connection or if too many connections are lingering.
func (l *Listener) closeLingering(c sock, end func() error) bool {
	if !l.lingering.tryAcquire() {
		return false
	}
	if c.CloseWrite() != nil {
		l.lingering.release()
		return false
	}
	go l.guard.Once(guard.Linger, func() {
		defer l.lingering.release()
		defer end() //nolint:errcheck // no caller is left
		l.guard.Point(guard.Linger)
		discardRequest(c, time.Now().Add(lingerTime))
	})
	return true
}

// discardRequest reads until the client ends, until it has sent lingerBytes, or until the time
// until has passed.
func discardRequest(c sock, until time.Time) {
	_ = c.SetReadDeadline(until)
	buf := discardBuffers.Get().(*[]byte)
	defer discardBuffers.Put(buf)
	for left := lingerBytes; left > 0; {
		n, err := c.Read(*buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// semaphore limits how many connections linger.
type semaphore struct {
	max  atomic.Int64
	held atomic.Int64
}

func (g *semaphore) tryAcquire() bool {
	if g.held.Add(1) > g.max.Load() {
		g.held.Add(-1)
		return false
	}
	return true
}

func (g *semaphore) release() { g.held.Add(-1) }
