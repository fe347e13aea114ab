package listen

import (
	"net"
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/guard"
)

// Bounds of lingering. A client that sends its whole body before it reads gets its answer as long as it keeps sending.
const (
	lingerTime  = 5 * time.Second
	lingerBytes = 256 << 20
	lingerConns = 128
	lingerLeast = 16 // that many, however few connections there may be
)

var drainBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// drain ends the writing half of c, discards in the background what the client still sends, and calls end. It returns
// false, and calls nothing, when the client has reset the connection or when too many linger already.
func (l *Listener) drain(c *net.TCPConn, end func() error) bool {
	if !l.lingering.enter() {
		return false
	}
	if c.CloseWrite() != nil {
		l.lingering.leave()
		return false
	}
	go l.guard.Once(guard.Linger, func() {
		defer l.lingering.leave()
		defer end() //nolint:errcheck // there is nobody to tell
		l.guard.Point(guard.Linger)
		discard(c, time.Now().Add(lingerTime))
	})
	return true
}

// discard reads until the client has nothing more to say, has said too much, or the time is over.
func discard(c *net.TCPConn, until time.Time) {
	_ = c.SetReadDeadline(until)
	buf := drainBuffers.Get().(*[]byte)
	defer drainBuffers.Put(buf)
	for left := lingerBytes; left > 0; {
		n, err := c.Read(*buf)
		if err != nil {
			return
		}
		left -= n
	}
}

// gate bounds how many may be inside.
type gate struct {
	max atomic.Int64
	in  atomic.Int64
}

func (g *gate) enter() bool {
	if g.in.Add(1) > g.max.Load() {
		g.in.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.in.Add(-1) }
