package listen

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"penstock/proxy/guard"
	"penstock/upstreams/http1/socket"
)

// Waiter is told when its client has gone.
type Waiter interface {
	// ClientGone is called at most once between Begin and End, from the watch's goroutine. It must not block and must not
	// call the connection.
	ClientGone()
}

// Conn is an accepted connection. Its methods belong to the goroutine that serves it, but for the deadlines and Close.
type Conn struct {
	*net.TCPConn
	ln         *Listener
	generation uint32
	fd         int
	stream     socket.Stream
	framing    framingChecker // unless it is TLS, which hides them

	mu     sync.Mutex
	waiter Waiter
	gone   bool

	silent int // sweeps in a row that found the client's host silent; the watch's own

	linger atomic.Bool
	closed atomic.Bool
	kept   atomic.Pointer[func()] // what the next Close does instead of closing

	unread []byte        // what Unread put back, for the next reads
	dry    bool          // Read returns errDry instead of waiting
	idle   time.Duration // what the next read deadline is to be; 0: what it is set to

	idleSince atomic.Int64 // nanoseconds since epoch since when it waits for a request; 0: it serves one
	woken     atomic.Bool  // Leave has cut a read short

	// Deadlines are nanoseconds since epoch; 0: none. Atomic because a TLS connection that a shutdown closes sets one from
	// another goroutine.
	readBy   atomic.Int64 // when reads fail
	readHeld atomic.Int64 // the read deadline that the socket holds
	writeBy  atomic.Int64 // the write deadline that the socket holds
	writeFor atomic.Int64 // what WriteWithin was given last, in nanoseconds; 0: deadlines are the caller's
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
		c.ln.guard.Point(guard.Clients)
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

// WriteWithin makes sure that each write from now on, and each piece of a large one, has at least seven eighths of d before it
// fails, from its own start: a deadline that was armed for one answer must not cut the next one on the same connection. Zero d
// changes nothing.
func (c *Conn) WriteWithin(d time.Duration) {
	if d > 0 {
		c.writeFor.Store(int64(d))
	}
}

// armWrite moves the deadline of writes to d from now. That costs more than a small write, so it is done only when less than
// seven eighths of d are left.
func (c *Conn) armWrite(d time.Duration) {
	by := time.Since(epoch) + d
	if time.Duration(c.writeBy.Load()) >= by-d/8 {
		return
	}
	c.writeBy.Store(int64(by))
	_ = c.TCPConn.SetWriteDeadline(epoch.Add(by)) // fails on a closed connection only, and then the write says so
}

// SetWriteDeadline sets the deadline of writes, and takes it out of WriteWithin's hands until that is called again.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.disown()
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline sets the deadline of reads and, as SetWriteDeadline does, of writes.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readUntil(t)
	return c.SetWriteDeadline(t)
}

// Keep takes the connection out of its server's hands: the next Close leaves it open and starts then on a goroutine of its
// own, which owns the connection from there and has to catch its panics itself.
func (c *Conn) Keep(then func()) { c.kept.Store(&then) }

// Unread puts back what from, the server's buffered reader of this connection, holds of bytes that nobody has asked for yet.
func (c *Conn) Unread(from io.Reader) {
	c.dry = true
	var piece [512]byte
	for {
		n, err := from.Read(piece[:])
		c.unread = append(c.unread, piece[:n]...)
		if n == 0 || err != nil {
			break
		}
	}
	c.dry = false
}

// errDry ends a reader that has nothing buffered.
var errDry = errors.New("nothing is buffered")

// Resume prepares the connection for a server that is to serve it as if it were new: its first byte may take as long as
// that of any request on a connection that is kept alive.
func (c *Conn) Resume(idle time.Duration) {
	c.idle = idle
	SetIdle(c)
}

// reread reads what Unread put back, which has been looked at.
func (c *Conn) reread(p []byte) (int, error) {
	if c.dry {
		return 0, errDry
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; len(c.unread) == 0 {
		c.unread = nil
	}
	return n, nil
}

// SetReadDeadline sets the deadline of reads; see Resume. It does not fail: on a closed connection the read does.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.idle > 0 {
		t, c.idle = time.Now().Add(c.idle), 0
	}
	c.readUntil(t)
	return nil
}

// readUntil makes t what reads fail at. fasthttp says three for each request, and moving a socket's deadline costs more than
// parsing a head. So the socket keeps an earlier one that it holds: when that fires, read looks at the clock and goes on.
func (c *Conn) readUntil(t time.Time) {
	by := int64(0)
	if !t.IsZero() {
		by = int64(t.Sub(epoch))
	}
	c.readBy.Store(by)
	if held := c.readHeld.Load(); by != 0 && (held == 0 || by < held) {
		c.holdRead(by)
	}
}

// holdRead makes by the read deadline that the socket holds.
func (c *Conn) holdRead(by int64) {
	c.readHeld.Store(by)
	t := time.Time{}
	if by != 0 {
		t = epoch.Add(time.Duration(by))
	}
	_ = c.TCPConn.SetReadDeadline(t) // fails on a closed connection only, and then the read says so
}

// overdue reports whether reads are to fail by now.
func (c *Conn) overdue() bool {
	by := c.readBy.Load()
	return by != 0 && int64(time.Since(epoch)) >= by
}

func (c *Conn) disown() {
	c.writeFor.Store(0)
	c.writeBy.Store(0)
}

// writePiece is how much of one write has to go out within the time that WriteWithin was given: about what a blocked writer is
// woken for, see unsent_linux.go.
const writePiece = 64 << 10

// Write writes p, each piece of it within the time that WriteWithin was given last: an answer of many megabytes takes a slow
// client as long as it takes, and one that has stopped reading is still noticed.
func (c *Conn) Write(p []byte) (int, error) {
	d := time.Duration(c.writeFor.Load())
	if d == 0 {
		return c.stream.Write(p)
	}
	for written := 0; ; {
		c.armWrite(d)
		n, err := c.stream.Write(p[written:min(len(p), written+writePiece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// Linger asks Close to let the client read the answer that was written although the client is still sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close ends the connection, unless it is to be kept (see Keep). It may be called more than once.
func (c *Conn) Close() error {
	if then := c.kept.Swap(nil); then != nil {
		go (*then)()
		return nil
	}
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
