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

// Waiter is notified when its client has gone.
type Waiter interface {
	// ClientGone is called at most once between Watch and Unwatch, on the watch's goroutine. It
	// must not block and must not call the connection.
	ClientGone()
}

// Conn is an accepted connection. Only the goroutine that serves it calls its methods, except for
// the deadlines and Close.
type Conn struct {
	*net.TCPConn
	ln         *Listener
	generation uint32
	fd         int
	stream     socket.Stream
	framing    framingChecker // without TLS, which has its own (tlsConn)

	mu     sync.Mutex
	waiter Waiter
	gone   bool

	unackedChecks int // checks in a row without an acknowledgement; only the watch uses it

	linger   atomic.Bool
	closed   atomic.Bool
	onDetach atomic.Pointer[func()] // what the next Close starts instead of closing

	unread          []byte        // bytes that Unread put back, for the next reads
	bufferedOnly    bool          // Read returns errNothingBuffered instead of waiting
	nextReadTimeout time.Duration // replaces the next read deadline that is set; 0: does not

	idleSince       atomic.Int64 // when it began to wait for a request, in nanoseconds since epoch; 0: it serves one
	readInterrupted atomic.Bool  // CloseGracefully has interrupted a read

	// Deadlines are nanoseconds since epoch; 0: none. They are atomic because a shutdown that
	// closes a TLS connection sets one from another goroutine.
	readDeadline     atomic.Int64 // when reads fail
	readDeadlineSet  atomic.Int64 // the read deadline of the socket
	writeDeadlineSet atomic.Int64 // the write deadline of the socket
	writeTimeout     atomic.Int64 // the last of SetWriteTimeout, in nanoseconds; 0: the caller sets deadlines
}

// epoch turns times into numbers of the monotonic clock.
var epoch = time.Now()

// ConnOf returns the Conn of c, also beneath TLS, or nil.
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

// Watch notifies w when the client goes. If the client has gone already, it returns true and does
// not keep w.
func (c *Conn) Watch(w Waiter) (gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.gone {
		c.waiter = w
	}
	return c.gone
}

// Unwatch withdraws w. After it has returned, no call of w runs or will run. w need not be
// watching.
func (c *Conn) Unwatch(w Waiter) {
	c.mu.Lock()
	if c.waiter == w {
		c.waiter = nil
	}
	c.mu.Unlock()
}

// clientGone records that the client has gone and notifies the waiter.
func (c *Conn) clientGone() {
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

// withWaiter calls f with the current waiter, if any.
func (c *Conn) withWaiter(f func(Waiter)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiter != nil {
		f(c.waiter)
	}
}

// SetWriteTimeout gives each later write, and each piece of a large one, at least seven eighths of
// d from its own start before it fails. The deadline of one answer thus never cuts the next answer
// on the same connection. Zero d changes nothing.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	if d > 0 {
		c.writeTimeout.Store(int64(d))
	}
}

// extendWriteDeadline moves the deadline of writes to d from now. That costs more than a small
// write, so it happens only when less than seven eighths of d are left.
func (c *Conn) extendWriteDeadline(d time.Duration) {
	by := time.Since(epoch) + d
	if time.Duration(c.writeDeadlineSet.Load()) >= by-d/8 {
		return
	}
	c.writeDeadlineSet.Store(int64(by))
	_ = c.TCPConn.SetWriteDeadline(epoch.Add(by)) // fails only on a closed connection, and then the write fails
}

// SetWriteDeadline sets the deadline of writes. It ends the effect of SetWriteTimeout.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.clearWriteTimeout()
	return c.TCPConn.SetWriteDeadline(t)
}

// SetDeadline sets the deadline of reads and, as SetWriteDeadline does, of writes.
func (c *Conn) SetDeadline(t time.Time) error {
	c.wantReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// DetachOnClose takes the connection from its server: the next Close leaves it open and starts then
// on a new goroutine, which owns the connection and must catch its own panics.
func (c *Conn) DetachOnClose(then func()) { c.onDetach.Store(&then) }

// Unread puts back the unread bytes of from, the server's buffered reader of this connection.
func (c *Conn) Unread(from io.Reader) {
	c.bufferedOnly = true
	var piece [512]byte
	for {
		n, err := from.Read(piece[:])
		c.unread = append(c.unread, piece[:n]...)
		if n == 0 || err != nil {
			break
		}
	}
	c.bufferedOnly = false
}

// errNothingBuffered ends the reading of an empty buffer.
var errNothingBuffered = errors.New("nothing is buffered")

// Resume prepares the connection for a server that serves it like a new one. The next request's
// first byte may take as long as on any connection that is kept alive.
func (c *Conn) Resume(idle time.Duration) {
	c.nextReadTimeout = idle
	SetIdle(c)
}

// readUnread reads bytes that Unread put back. Their framing has been checked.
func (c *Conn) readUnread(p []byte) (int, error) {
	if c.bufferedOnly {
		return 0, errNothingBuffered
	}
	n := copy(p, c.unread)
	if c.unread = c.unread[n:]; len(c.unread) == 0 {
		c.unread = nil
	}
	return n, nil
}

// SetReadDeadline sets the deadline of reads; see Resume. On a closed connection only the read
// fails.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.nextReadTimeout > 0 {
		t, c.nextReadTimeout = time.Now().Add(c.nextReadTimeout), 0
	}
	c.wantReadDeadline(t)
	return nil
}

// wantReadDeadline records t as the deadline of reads. fasthttp sets three for each request, and
// moving a socket's deadline costs more than parsing a head. So the socket keeps an earlier
// deadline: when that fires, read looks at the clock and continues.
func (c *Conn) wantReadDeadline(t time.Time) {
	by := int64(0)
	if !t.IsZero() {
		by = int64(t.Sub(epoch))
	}
	c.readDeadline.Store(by)
	if held := c.readDeadlineSet.Load(); by != 0 && (held == 0 || by < held) {
		c.applyReadDeadline(by)
	}
}

// applyReadDeadline sets the read deadline of the socket.
func (c *Conn) applyReadDeadline(by int64) {
	c.readDeadlineSet.Store(by)
	t := time.Time{}
	if by != 0 {
		t = epoch.Add(time.Duration(by))
	}
	_ = c.TCPConn.SetReadDeadline(t) // fails only on a closed connection, and then the read fails
}

// readOverdue reports whether the deadline of reads has passed.
func (c *Conn) readOverdue() bool {
	by := c.readDeadline.Load()
	return by != 0 && int64(time.Since(epoch)) >= by
}

func (c *Conn) clearWriteTimeout() {
	c.writeTimeout.Store(0)
	c.writeDeadlineSet.Store(0)
}

// writePiece is how much of one write must go out within the time of SetWriteTimeout. It is about
// the room for which the kernel wakes a blocked writer, see send_buffer_linux.go.
const writePiece = 64 << 10

// Write writes p, each piece of it within the time of SetWriteTimeout. A slow client may take any
// time for an answer of many megabytes, and a client that has stopped reading is still noticed.
func (c *Conn) Write(p []byte) (int, error) {
	d := time.Duration(c.writeTimeout.Load())
	if d == 0 {
		return c.stream.Write(p)
	}
	for written := 0; ; {
		c.extendWriteDeadline(d)
		n, err := c.stream.Write(p[written:min(len(p), written+writePiece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// Linger makes Close let the client read the written answer, although the client is still sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close ends the connection, unless it is to be detached (see DetachOnClose). Further calls return
// net.ErrClosed.
func (c *Conn) Close() error {
	if then := c.onDetach.Swap(nil); then != nil {
		go (*then)()
		return nil
	}
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if c.linger.Load() && c.ln.closeLingering(c.TCPConn, c.closeNow) {
		return nil
	}
	return c.closeNow()
}

// closeNow closes the socket. The order matters: the kernel may reuse the descriptor's number as
// soon as it is closed.
func (c *Conn) closeNow() error {
	c.ln.unregister(c)
	return c.TCPConn.Close()
}
