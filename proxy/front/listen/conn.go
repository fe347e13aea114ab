package listen

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"penstock/config/instant"
	"penstock/proxy/access/auth"
	"penstock/upstreams/http1/socket"
)

// sock is a TCP connection, or one at a Unix socket.
type sock interface {
	socket.Conn
	CloseWrite() error
}

// Conn is an accepted connection. Only the goroutine that serves it calls its methods, except Close
// and the methods that set deadlines.
type Conn struct {
	sock
	ln *Listener
	// see networkOf; for a client behind a proxy, the client's address once it is known
	address    netip.Addr
	generation uint32
	fd         int
	stream     socket.Stream
	framing    framingChecker // for plain connections; tlsConn has its own checker

	listed bool         // the peer is a proxy that SetProxies lists
	header *proxyHeader // nil: the header is already read, or none is expected
	behind *net.TCPAddr // the address of the client behind a proxy

	client  clientState
	unread  unreadBytes
	idle    idleState
	reads   readDeadline
	writes  writeDeadline
	asked   bool          // a request has started on this connection
	known   atomic.Bool   // see ShowedKey
	lastKey auth.LastKey  // see SenderOf
	resumed time.Duration // unless 0, used once in place of the next read deadline

	linger   atomic.Bool
	closed   atomic.Bool
	onDetach atomic.Pointer[func()] // the function that the next Close starts instead of closing
}

// ConnOf returns the Conn of c, even if c is a TLS connection on top of it. It returns nil if there
// is none.
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

// Watch makes w be notified when the client leaves. If the client has already left, Watch returns
// true and does not keep w.
func (c *Conn) Watch(w Waiter) (gone bool) { return c.client.watch(w) }

// Unwatch withdraws w. After it has returned, no method of w is running or will run. w need not be
// watching.
func (c *Conn) Unwatch(w Waiter) { c.client.unwatch(w) }

// Gone reports whether the client is known to have left.
func (c *Conn) Gone() bool { return c.client.isGone() }

// Leave records that the client has left, and notifies the waiter. It is for protocols in which
// clients announce that they leave.
func (c *Conn) Leave() { c.client.hasLeft(c.ln.guard) }

// SetWriteTimeout sets how long each later write, or each piece of a large write, may take. A write
// gets at least seven eighths of d from its start. Thus the deadline of one answer never cuts off
// the next answer on the same connection. If d is zero, nothing changes.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	if d > 0 {
		c.writes.timeout.Store(int64(d))
	}
}

// SetWriteDeadline sets the write deadline. It ends the effect of SetWriteTimeout.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writes.clear()
	return c.sock.SetWriteDeadline(t)
}

// SetDeadline sets the read deadline, and sets the write deadline like SetWriteDeadline.
func (c *Conn) SetDeadline(t time.Time) error {
	c.reads.want(c.sock, t)
	return c.SetWriteDeadline(t)
}

// DetachOnClose takes the connection away from its server. The next Close leaves it open and runs
// the given function on another goroutine. That function owns the connection and must catch its own
// panics.
func (c *Conn) DetachOnClose(then func()) { c.onDetach.Store(&then) }

// Unread puts back the unread bytes of from, the server's buffered reader of this connection.
func (c *Conn) Unread(from io.Reader) { c.unread.collect(from) }

// Resume prepares the connection for a server that serves it like a new connection. The first byte
// of the next request may take up to idle, as on any keep-alive connection.
func (c *Conn) Resume(idle time.Duration) {
	c.resumed = idle
	c.idle.idle()
	c.framing.enable()
}

// SetReadDeadline sets the read deadline; see Resume. It returns no error on a closed connection,
// because the next read fails anyway.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.resumed > 0 {
		t, c.resumed = time.Now().Add(c.resumed), 0
	}
	c.reads.want(c.sock, t)
	return nil
}

// read reads from the client until the read deadline. After CloseGracefully, read returns io.EOF on
// an idle connection.
func (c *Conn) read(p []byte) (int, error) {
	for {
		if c.ln.closing.Load() {
			if since := c.idle.since.Load(); since != 0 {
				return c.finalRead(p, since+int64(c.grace()))
			}
		}
		n, err := c.stream.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !c.idle.interrupted.CompareAndSwap(true, false) && c.reads.passed() {
			// If the process was stopped or got no processor time, the deadline may have passed
			// although the socket holds bytes from the client. So read takes these bytes first.
			if n, late := readAvailable(c.sock, p); late == nil {
				return n, nil
			}
			return n, err
		}
		// CloseGracefully has interrupted the read, or an earlier deadline has expired. If
		// CloseGracefully runs now, restore overwrites its deadline, but the loop then sees
		// closing.
		c.reads.restore(c.sock)
	}
}

// grace returns how long the connection may stay idle while the listener closes.
func (c *Conn) grace() time.Duration {
	if c.asked {
		return idleGrace
	}
	return firstGrace
}

// finalRead reads until the given instant.Time. It then also takes bytes that have been received
// although that time has passed. If there are none, it returns io.EOF.
func (c *Conn) finalRead(p []byte, until int64) (int, error) {
	c.reads.hold(c.sock, until)
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = readAvailable(c.sock, p)
	}
	c.reads.restore(c.sock)
	return n, err
}

// writePiece is the number of bytes of a write that must be sent within the timeout of
// SetWriteTimeout. It is about as large as the free space at which the kernel wakes a blocked
// writer; see send_buffer_linux.go.
const writePiece = 64 << 10

// Write writes p in pieces, each within the timeout of SetWriteTimeout. A slow client may take any
// time to read an answer of many megabytes, but a client that has stopped reading is detected.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteNow(p, 0) }

// WriteNow is Write for a caller that has just read the clock: now is the current time. If now is
// zero, WriteNow reads the clock.
func (c *Conn) WriteNow(p []byte, now instant.Time) (int, error) {
	d := time.Duration(c.writes.timeout.Load())
	if d == 0 {
		return c.stream.Write(p)
	}
	for written := 0; ; now = 0 {
		if now == 0 {
			now = instant.Now()
		}
		c.writes.extend(c.sock, now, d)
		n, err := c.stream.Write(p[written:min(len(p), written+writePiece)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// TryWrite writes as much of p as the client's socket accepts without waiting, and returns the number
// of bytes. The next Write returns an error that occurs.
func (c *Conn) TryWrite(p []byte) int { return c.stream.WriteNow(p) }

// Linger makes Close give the client time to read the written answer, even if the client is still
// sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close closes the connection, unless it is to be detached (see DetachOnClose). Further calls
// return net.ErrClosed.
func (c *Conn) Close() error {
	if then := c.onDetach.Swap(nil); then != nil {
		c.ln.detached.run(*then)
		return nil
	}
	if !c.closed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if c.linger.Load() && c.ln.closeLingering(c.sock, c.closeNow) {
		return nil
	}
	return c.closeNow()
}

// Reset closes a connection from Accept with a TCP reset, so that the client does not mistake a
// partial answer for a complete one.
func Reset(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.linger.Store(false)
		if tcp, ok := conn.sock.(*net.TCPConn); ok { // a Unix socket has no reset
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// closeNow closes the socket. It unregisters the connection first, because the kernel may reuse the
// descriptor's number once the socket is closed.
func (c *Conn) closeNow() error {
	c.ln.unregister(c)
	return c.sock.Close()
}
