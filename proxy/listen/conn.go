package listen

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Waiter is told when its client has gone.
type Waiter interface {
	// ClientGone is called at most once between Begin and End, from the watch's goroutine or from Begin's caller. It must
	// not block and must not call the connection.
	ClientGone()
}

// Conn is an accepted connection. Begin, End, Linger and ExtendWriteDeadline belong to the goroutine that serves it.
type Conn struct {
	*net.TCPConn
	ln         *Listener
	generation uint32
	fd         int

	mu     sync.Mutex
	waiter Waiter
	gone   bool

	linger  atomic.Bool
	closed  atomic.Bool
	writeBy time.Time // the write deadline that is armed
}

// ConnOf returns the Conn beneath c, which may be TLS around one, or nil.
func ConnOf(c net.Conn) *Conn {
	for {
		switch x := c.(type) {
		case *Conn:
			return x
		case interface{ NetConn() net.Conn }:
			c = x.NetConn()
		default:
			return nil
		}
	}
}

// Begin makes w the one that is told when the client goes. It returns true, and publishes nothing, when it has gone
// already.
func (c *Conn) Begin(w Waiter) (gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.waiter = w
	}
	return c.gone
}

// End withdraws w. When it has returned, w is not being called and will not be. Ending what has not begun is allowed.
func (c *Conn) End(w Waiter) {
	c.mu.Lock()
	if c.waiter == w {
		c.waiter = nil
	}
	c.mu.Unlock()
}

// lost notes that the client has gone and tells the waiter.
func (c *Conn) lost() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	if c.waiter != nil {
		c.waiter.ClientGone()
	}
}

// tell calls f with the current waiter, if there is one.
func (c *Conn) tell(f func(Waiter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiter != nil {
		f(c.waiter)
	}
}

// ExtendWriteDeadline makes sure that writes have at least seven eighths of d from now on before they fail. Arming a
// deadline costs more than a small write, so it is moved only when it is needed. Zero d changes nothing.
func (c *Conn) ExtendWriteDeadline(now time.Time, d time.Duration) {
	if d <= 0 || c.writeBy.Sub(now) >= d-d/8 {
		return
	}
	c.writeBy = now.Add(d)
	_ = c.SetWriteDeadline(c.writeBy) // fails on a closed connection only, and then the write says so
}

// Linger asks Close to let the client read the answer that was written although the client is still sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close ends the connection. It may be called more than once.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if c.linger.Load() && c.ln.lingering.enter() {
		if c.CloseWrite() == nil {
			go c.drain()
			return nil
		}
		c.ln.lingering.leave()
	}
	return c.release()
}

// release closes the socket. The order matters: the descriptor's number may be taken again as soon as it is closed.
func (c *Conn) release() error {
	c.ln.forget(c)
	return c.TCPConn.Close()
}

// Bounds of lingering. A client that sends its whole body before it reads gets its answer as long as it keeps sending.
const (
	lingerTime  = 5 * time.Second
	lingerBytes = 256 << 20
	lingerConns = 256
)

var drainBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// drain discards what the client still sends.
func (c *Conn) drain() {
	defer c.ln.lingering.leave()
	defer c.release() //nolint:errcheck // there is nobody to tell
	_ = c.SetReadDeadline(time.Now().Add(lingerTime))
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
	max int64
	in  atomic.Int64
}

func (g *gate) enter() bool {
	if g.in.Add(1) > g.max {
		g.in.Add(-1)
		return false
	}
	return true
}

func (g *gate) leave() { g.in.Add(-1) }
