package listen

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Waiter is told when its client has gone.
type Waiter interface {
	// ClientGone is called at most once between Begin and End, from the watch's goroutine. It must not block and must not
	// call the connection.
	ClientGone()
}

// Conn is an accepted connection. Begin, End, Linger, ExtendWriteDeadline, Read and Write belong to the goroutine
// that serves it.
type Conn struct {
	*net.TCPConn
	ln         *Listener
	generation uint32
	fd         int
	lines      lines // unless it is TLS, which hides them

	mu     sync.Mutex
	waiter Waiter
	gone   bool

	linger atomic.Bool
	closed atomic.Bool

	idleSince atomic.Int64 // nanoseconds since epoch since when it waits for a request; 0: it serves one
	woken     atomic.Bool  // Leave has cut a read short

	// Atomic because a TLS connection that a shutdown closes sets a deadline from another goroutine.
	writeFor atomic.Int64 // nanoseconds that ExtendWriteDeadline was given last; 0: deadlines are the caller's
	writeBy  atomic.Int64 // the write deadline that is armed, in nanoseconds since epoch
}

// epoch makes times numbers without losing the monotonic clock.
var epoch = time.Now()

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
// deadline costs more than a small write, so it is moved only when it is needed. d holds for later writes too, each from
// its own start: a deadline that was armed for one answer must not cut the next one on the same connection. Zero d changes
// nothing.
func (c *Conn) ExtendWriteDeadline(now time.Time, d time.Duration) {
	if d <= 0 {
		return
	}
	c.writeFor.Store(int64(d))
	if c.writeBy.Load()-int64(now.Sub(epoch)) >= int64(d-d/8) {
		return
	}
	by := now.Add(d)
	c.writeBy.Store(int64(by.Sub(epoch)))
	_ = c.TCPConn.SetWriteDeadline(by) // fails on a closed connection only, and then the write says so
}

// SetWriteDeadline sets the deadline of writes, and takes it out of ExtendWriteDeadline's hands until that is called again.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.disown()
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline sets the deadline of reads and, as SetWriteDeadline does, of writes.
func (c *Conn) SetDeadline(t time.Time) error {
	c.disown()
	return c.TCPConn.SetDeadline(t)
}

func (c *Conn) disown() {
	c.writeFor.Store(0)
	c.writeBy.Store(0)
}

// Write writes p within the time that ExtendWriteDeadline was given last.
func (c *Conn) Write(p []byte) (int, error) {
	if d := c.writeFor.Load(); d > 0 {
		c.ExtendWriteDeadline(time.Now(), time.Duration(d))
	}
	return c.TCPConn.Write(p)
}

// Linger asks Close to let the client read the answer that was written although the client is still sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close ends the connection. It may be called more than once.
func (c *Conn) Close() error {
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if c.linger.Load() && c.ln.drain(c.TCPConn, c.release) {
		return nil
	}
	return c.release()
}

// release closes the socket. The order matters: the descriptor's number may be taken again as soon as it is closed.
func (c *Conn) release() error {
	c.ln.forget(c)
	return c.TCPConn.Close()
}
