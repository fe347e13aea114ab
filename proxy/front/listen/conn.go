package listen

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"penstock/config/instant"
	"penstock/proxy/access/auth"
	"penstock/upstreams/http1/socket"
)

type sock interface {
	socket.Conn
	CloseWrite() error
}

// Conn is an accepted connection. Only the goroutine that serves the connection may call its
// methods. The exceptions are Close and the methods that set deadlines.
type Conn struct {
	sock
	ln *Listener
	// address of the client for MaxPerAddress; see networkOf and comesFrom
	address netip.Addr
	hangUp  hangUp
	stream  socket.Stream
	framing framingChecker // used by plain connections; a tlsConn has a separate checker

	listed bool         // whether the peer is a proxy listed in SetProxies
	header *proxyHeader // nil if the header has been read or is not expected
	behind *net.TCPAddr // address of the client, if it is behind a proxy

	client  clientState
	later   []byte // bytes of the next request that arrived with the current one
	idle    idleState
	reads   readDeadline
	writes  writeDeadline
	asked   bool          // whether a request has ever started on this connection
	known   atomic.Bool   // see ShowedKey
	lastKey auth.LastKey  // see SenderOf
	resumed time.Duration // if not 0, replaces the next read deadline

	linger atomic.Bool
	closed atomic.Bool
	// Function that the next Close runs instead of closing the connection.
	onDetach atomic.Pointer[func()]
	detached bool // whether such a function is running
}

// ConnOf returns the Conn that c wraps, for example if c is a TLS connection. If c is of another
// type, ConnOf returns nil.
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

// Watch registers w to be notified when the client disconnects. If the client has already
// disconnected, Watch returns true and ignores w.
func (c *Conn) Watch(w Waiter) (gone bool) { return c.client.watch(w) }

// Unwatch stops notifying w. Once it has returned, ClientGone is not running and will not be
// called. It does nothing if w is not registered.
func (c *Conn) Unwatch(w Waiter) { c.client.unwatch(w) }

// Gone reports whether the client has disconnected.
func (c *Conn) Gone() bool { return c.client.isGone() }

// Leave records that the client has disconnected, and notifies the waiter. It is used by protocols
// in which a client announces its disconnection.
func (c *Conn) Leave() { c.client.hasLeft(c.ln.guard) }

// SetWriteTimeout sets the timeout for later writes. A large write is split into pieces, and the
// timeout applies to each piece. Every write gets at least 7/8 of d, so the deadline of one
// response never affects the next response. If d is zero, SetWriteTimeout does nothing.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	if d > 0 {
		c.writes.timeout.Store(int64(d))
	}
}

// SetWriteDeadline sets the write deadline and disables SetWriteTimeout.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writes.clear()
	return c.sock.SetWriteDeadline(t)
}

// SetDeadline sets the read deadline and the write deadline.
func (c *Conn) SetDeadline(t time.Time) error {
	c.reads.want(c.sock, t)
	return c.SetWriteDeadline(t)
}

// DetachOnClose detaches the connection from its server. The next Close does not close the
// connection, but runs the function then. From that point, the function owns the connection and
// must recover from its panics. It may pass the connection to a server again (Resume), and detach
// it from that server too.
func (c *Conn) DetachOnClose(then func()) { c.onDetach.Store(&then) }

// detach runs the functions passed to DetachOnClose. A server that such a function calls also
// closes the connection. The first detach then runs the next function, so that the stack does not
// grow with each stream on the connection.
func (c *Conn) detach() {
	if c.detached {
		return
	}
	c.detached = true
	for then := c.onDetach.Swap(nil); then != nil; then = c.onDetach.Swap(nil) {
		(*then)()
	}
	c.detached = false
}

// Resume prepares the connection for a server that will serve it like a new connection. The next
// request must start within idle, as on any keep-alive connection.
func (c *Conn) Resume(idle time.Duration) {
	c.resumed = idle
	c.idle.idle()
	c.framing.enable()
}

// SetReadDeadline sets the read deadline. The first call after Resume instead sets the deadline to
// the end of the idle time passed to Resume. If the connection is closed, SetReadDeadline returns
// nil, because the next read will fail.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.resumed > 0 {
		t, c.resumed = time.Now().Add(c.resumed), 0
	}
	c.reads.want(c.sock, t)
	return nil
}

// read reads until the read deadline. After CloseGracefully, it returns io.EOF if the connection is
// idle.
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
			// even though bytes have arrived. Read these bytes first.
			if n, late := readAvailable(c.sock, p); late == nil {
				return n, nil
			}
			return n, err
		}
		// Either CloseGracefully interrupted the read, or the socket's deadline is earlier than the
		// wanted deadline. If CloseGracefully runs now, restore overwrites its deadline, but the
		// next iteration sees closing.
		c.reads.restore(c.sock)
	}
}

// grace returns how long the connection may stay idle during a graceful close.
func (c *Conn) grace() time.Duration {
	if c.asked {
		return idleGrace
	}
	return firstGrace
}

// finalRead reads until the given instant, and then once more without blocking. If no byte has
// arrived, it returns io.EOF.
func (c *Conn) finalRead(p []byte, until int64) (int, error) {
	c.reads.hold(c.sock, until)
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = readAvailable(c.sock, p)
	}
	c.reads.restore(c.sock)
	return n, err
}

// writePiece is how many bytes must be sent within the write timeout. It roughly equals the free
// buffer space at which the kernel wakes a blocked writer (send_buffer_linux.go).
const writePiece = 64 << 10

// Write writes p in pieces. The timeout set by SetWriteTimeout applies to each piece. A slow client
// may therefore take a long time to read a large response, but a client that stops reading is
// detected.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteNow(p, 0) }

// WriteNow is Write for a caller that has just read the clock and passes the time as now. If now is
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

// TryWrite writes as much of p as the client's socket accepts without blocking, and returns the
// number of bytes written. If an error occurs, the next Write returns it.
func (c *Conn) TryWrite(p []byte) int { return c.stream.WriteNow(p) }

// Linger makes Close give the client time to read the response, even if the client is still
// sending.
func (c *Conn) Linger() { c.linger.Store(true) }

// Close closes the connection. After DetachOnClose, it detaches the connection instead. Later calls
// return net.ErrClosed.
func (c *Conn) Close() error {
	if c.onDetach.Load() != nil {
		c.detach()
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

// Reset closes a connection with a TCP reset, so that the client does not mistake a partial
// response for a complete one.
func Reset(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.linger.Store(false)
		if tcp, ok := conn.sock.(*net.TCPConn); ok { // a connection over a Unix socket cannot be reset
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// closeNow unregisters the connection and then closes the socket. This order is necessary because
// the kernel may reuse the descriptor once the socket is closed.
func (c *Conn) closeNow() error {
	c.ln.unregister(c)
	return c.sock.Close()
}
