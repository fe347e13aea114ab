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

type rawConn interface {
	socket.Conn
	CloseWrite() error
}

// Conn is an accepted connection. Only the goroutine that serves the connection may call its
// methods. Any goroutine may call Close and the methods that set deadlines.
type Conn struct {
	rawConn
	ln *Listener
	// client address that counts for MaxPerAddress; see connCountAddress and countForClient
	address netip.Addr
	hangUp  hangUpHandle
	stream  socket.Stream
	framing framingChecker // used by plain connections; a tlsConn has a separate checker

	proxyHeader *proxyHeader // nil if the header has been read or is not expected
	proxiedAddr *net.TCPAddr // address of the client, if it is behind a proxy

	client           disconnectState
	nextRequestBytes []byte                // bytes of the next request that arrived with the current one
	response         pendingResponseBuffer // see RecycleAfterResponse
	idle             idleState
	readDeadline     readDeadline
	writeDeadline    writeDeadline
	hadRequest       atomic.Bool       // whether a request has started on this connection
	hasValidKey      atomic.Bool       // see MarkAuthenticated
	lastKey          auth.LastKeyCache // see AuthConnection
	resumeIdle       time.Duration     // if not 0, the next read deadline is this far in the future

	lingerOnClose   atomic.Bool
	isClosed        atomic.Bool
	fromListedProxy bool       // whether the peer is a proxy listed in SetProxies
	detachment      detachment // see DetachOnClose
}

// UnwrapConn returns the Conn that c wraps, for example if c is a TLS connection. If c is of
// another type, UnwrapConn returns nil.
func UnwrapConn(c net.Conn) *Conn {
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

// WatchDisconnect registers w to be notified when the client disconnects. If the client has already
// disconnected, WatchDisconnect returns true and ignores w.
func (c *Conn) WatchDisconnect(w DisconnectWaiter) (gone bool) { return c.client.setWaiter(w) }

// UnwatchDisconnect stops notifying w. Once it has returned, OnDisconnect is not running and will
// not be called. It does nothing if w is not registered.
func (c *Conn) UnwatchDisconnect(w DisconnectWaiter) { c.client.clearWaiter(w) }

// IsClientGone reports whether the client has disconnected.
func (c *Conn) IsClientGone() bool { return c.client.isGone() }

// MarkClientGone records that the client has disconnected, and notifies the waiter. It is used by
// protocols in which a client announces its disconnection.
func (c *Conn) MarkClientGone() { c.client.markGone(c.ln.guard) }

// SetWriteTimeout sets the timeout for later writes. A large write is split into pieces, and the
// timeout applies to each piece. Every write gets at least 7/8 of d, so the deadline of one
// response never affects the next response. If d is zero, SetWriteTimeout does nothing.
func (c *Conn) SetWriteTimeout(d time.Duration) {
	if d > 0 {
		c.writeDeadline.timeout.Store(int64(d))
	}
}

// SetWriteDeadline sets the write deadline and disables SetWriteTimeout.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.writeDeadline.clear()
	return c.rawConn.SetWriteDeadline(t)
}

// SetDeadline sets the read deadline and the write deadline. If the connection is closed, it returns
// nil like SetReadDeadline. After an error, fasthttp would not run the hijack handler, which must end
// the call.
func (c *Conn) SetDeadline(t time.Time) error {
	c.readDeadline.setWanted(c.rawConn, t)
	_ = c.SetWriteDeadline(t)
	return nil
}

// DetachOnClose detaches the connection from its server. The next Close does not close the
// connection, but calls then. From that point, the function owns the connection and must recover
// from its panics. It may pass the connection to a server again (ResumeHTTP), and may detach it
// again.
func (c *Conn) DetachOnClose(then func()) {
	c.framing.releaseLines()
	c.detachment.onClose.Store(&then)
}

// ResumeHTTP prepares the connection for a server that will serve it like a new connection. The
// next request must start within idle, as on any keep-alive connection.
func (c *Conn) ResumeHTTP(idle time.Duration) {
	c.resumeIdle = idle
	c.idle.markIdle()
	c.framing.enable()
}

// SetReadDeadline sets the read deadline. The first call after ResumeHTTP instead sets the deadline
// to the end of the idle time passed to ResumeHTTP. If the connection is closed, SetReadDeadline
// returns nil, because the next read will fail.
func (c *Conn) SetReadDeadline(t time.Time) error {
	if c.resumeIdle > 0 {
		t, c.resumeIdle = time.Now().Add(c.resumeIdle), 0
	}
	c.readDeadline.setWanted(c.rawConn, t)
	return nil
}

// read reads until the read deadline. After CloseGracefully, it returns io.EOF if the connection is
// idle.
func (c *Conn) read(p []byte) (int, error) {
	for {
		if c.ln.isClosing.Load() {
			if since := c.idle.idleSince.Load(); since != 0 {
				return c.finalRead(p, since+int64(c.idleGracePeriod()))
			}
		}
		n, err := c.stream.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		interrupted := c.idle.readInterrupted.CompareAndSwap(true, false)
		if interrupted && c.mayPark(instant.Now()) {
			return 0, errPark
		}
		if !interrupted && c.readDeadline.hasPassed() {
			// If the process was stopped or got no processor time, the deadline may have passed
			// even though bytes have arrived. Read these bytes first.
			if n, late := readAvailable(c.rawConn, p); late == nil {
				return n, nil
			}
			return n, err
		}
		// Either CloseGracefully or parkIdleConns interrupted the read, or the socket's deadline is
		// earlier than the wanted deadline. If CloseGracefully runs now, restore overwrites its
		// deadline, but the next iteration checks isClosing.
		c.readDeadline.restore(c.rawConn)
	}
}

// idleGracePeriod returns how long the connection may stay idle during a graceful close.
func (c *Conn) idleGracePeriod() time.Duration {
	if c.hadRequest.Load() {
		return shutdownIdleGrace
	}
	return firstRequestGrace
}

// finalRead reads until the instant until, and then once more without blocking. If no byte has
// arrived, it returns io.EOF.
func (c *Conn) finalRead(p []byte, until int64) (int, error) {
	c.readDeadline.setSocketDeadline(c.rawConn, until)
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = readAvailable(c.rawConn, p)
	}
	c.readDeadline.restore(c.rawConn)
	return n, err
}

// writePieceSize is how many bytes must be sent within the write timeout. It roughly equals the free
// buffer space at which the kernel wakes a blocked writer (send_buffer_linux.go).
const writePieceSize = 64 << 10

// Write writes p in pieces. The timeout set by SetWriteTimeout applies to each piece. A slow client
// may therefore take a long time to read a large response, but a client that stops reading is
// detected.
func (c *Conn) Write(p []byte) (int, error) { return c.WriteWithNow(p, 0) }

// WriteWithNow is Write for a caller that has just read the clock and passes the time as now. If now
// is zero, WriteWithNow reads the clock.
func (c *Conn) WriteWithNow(p []byte, now instant.Time) (int, error) {
	d := time.Duration(c.writeDeadline.timeout.Load())
	if d == 0 {
		return c.stream.Write(p)
	}
	for written := 0; ; now = 0 {
		if now == 0 {
			now = instant.Now()
		}
		c.writeDeadline.extend(c.rawConn, now, d)
		n, err := c.stream.Write(p[written:min(len(p), written+writePieceSize)])
		written += n
		if err != nil || written == len(p) {
			return written, err
		}
	}
}

// TryWrite writes as much of p as the client's socket accepts without blocking, and returns the
// number of bytes written. If an error occurs, the next Write returns it.
func (c *Conn) TryWrite(p []byte) int { return c.stream.TryWrite(p) }

// LingerOnClose makes Close give the client time to read the response, even if the client is still
// sending.
func (c *Conn) LingerOnClose() { c.lingerOnClose.Store(true) }

// Close closes the connection. After DetachOnClose, Close detaches the connection instead. After a
// read that was interrupted for parking, Close parks the connection. Later calls return
// net.ErrClosed.
func (c *Conn) Close() error {
	if then, detached := c.detachment.takeOnClose(); detached {
		for ; then != nil; then = c.detachment.takeWaiting() {
			(*then)()
		}
		return nil
	}
	return c.closeUndetached()
}

// closeUndetached is separate from Close so that a detached connection needs less of its stack.
func (c *Conn) closeUndetached() error {
	if !c.isClosed.CompareAndSwap(false, true) {
		return net.ErrClosed
	}
	if c.lingerOnClose.Load() && c.ln.lingerThenClose(c.rawConn, c.closeNow) {
		return nil
	}
	return c.closeNow()
}

// ResetConn closes a connection with a TCP reset, so that the client does not mistake a partial
// response for a complete one.
func ResetConn(c net.Conn) {
	if conn := UnwrapConn(c); conn != nil {
		conn.lingerOnClose.Store(false)
		if tcp, ok := conn.rawConn.(*net.TCPConn); ok { // a connection over a Unix socket cannot be reset
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// closeNow unregisters the connection and then closes the socket. This order is necessary because
// the kernel may reuse the descriptor once the socket is closed.
func (c *Conn) closeNow() error {
	c.ln.unregister(c)
	return c.rawConn.Close()
}
