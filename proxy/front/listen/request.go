package listen

import (
	"bytes"
	"io"
	"net"
)

// SetConnIdle records that c is waiting for a request.
func SetConnIdle(c net.Conn) {
	if conn := UnwrapConn(c); conn != nil {
		conn.idle.markIdle()
		if conn.response.buffer != nil {
			conn.response.recycle(conn.response.buffer)
			conn.response = pendingResponseBuffer{}
		}
	}
	if l := connFraming(c); l != nil {
		l.enable()
	}
}

// pendingResponseBuffer is a buffer with the response to the request being served.
type pendingResponseBuffer struct {
	buffer  *[]byte
	recycle func(*[]byte)
}

// RecycleAfterResponse calls recycle once the server has written the response to the request being
// served on c, which is in the buffer. If the response is not written completely, the buffer is
// left to the collector. If c is neither a *Conn nor a TLS connection of a Listener, as for the
// calls of a WebSocket, RecycleAfterResponse does nothing and returns false.
func RecycleAfterResponse(c net.Conn, buffer *[]byte, recycle func(*[]byte)) bool {
	if connFraming(c) == nil {
		return false
	}
	conn := UnwrapConn(c)
	conn.response = pendingResponseBuffer{buffer, recycle}
	return true
}

// SetConnActive records that the server is starting to serve a request on c. It must be called once
// per request, after the first byte of the request has arrived.
func SetConnActive(c net.Conn) {
	if conn := UnwrapConn(c); conn != nil {
		if !conn.hadRequest.Load() {
			conn.hadRequest.Store(true)
		}
		conn.idle.markRequestBegun(conn.hasValidKey.Load())
	}
	if l := connFraming(c); l != nil {
		l.beginServing()
	}
}

// MarkHeadersReceived records that the request headers are complete. From then on, the listener
// does not evict c until the response has been written.
func MarkHeadersReceived(c net.Conn) {
	if conn := UnwrapConn(c); conn != nil {
		conn.idle.markRequestComplete()
	}
}

// MarkAuthenticated records that the client has sent a valid key. Connections whose client has not
// sent a valid key are evicted first.
func (c *Conn) MarkAuthenticated() {
	if !c.hasValidKey.Load() {
		c.hasValidKey.Store(true)
	}
}

// FramingError returns the framing error in the current request on c, or nil. The server may
// already have parsed the request if it arrived in a single read.
func FramingError(c net.Conn) error {
	if l := connFraming(c); l != nil && l.isServingNewest() {
		return l.err
	}
	return nil
}

// HasPlainHeaders reports whether the headers of the request being served on c contain no line that
// fasthttp and another parser might interpret differently.
func HasPlainHeaders(c net.Conn) bool {
	l := connFraming(c)
	return l != nil && l.isServingNewest() && l.headComplete && !l.needsHeaderScan
}

// BodyFramingError is FramingError for a request whose body has been read to its end. It also
// returns ErrFraming if the body is incomplete, because closing a connection does not end a chunked
// body.
func BodyFramingError(c net.Conn) error {
	l := connFraming(c)
	switch {
	case l == nil || l.state == stateOff || !l.isServingNewest():
		return nil
	case l.err != nil:
		return l.err
	case l.state != stateRequestLine:
		return ErrFraming
	}
	return nil
}

// IsRequestComplete reports whether the current request on c has been received completely,
// including its body. Reading its body then does not block.
func IsRequestComplete(c net.Conn) bool {
	l := connFraming(c)
	return l != nil && l.isRequestComplete()
}

// IsRequestTruncated reports whether the client closed its side before the end of the current
// request on c. It returns false if the request is malformed. The result can be true only once a
// read has reported the end of the connection.
func IsRequestTruncated(c net.Conn) bool {
	l := connFraming(c)
	return l != nil && l.isTruncated()
}

// RequestPath returns the path of the current request on c as far as it has been read, and whether
// the headers are complete. fasthttp does not provide the path if the headers are too large or if
// the body never starts. The bytes are valid until the next request.
func RequestPath(c net.Conn) (path []byte, headComplete bool) {
	if l := connFraming(c); l != nil {
		return l.requestPath(), l.headComplete && l.isServingNewest()
	}
	return nil, false
}

// StopFramingCheck records that c no longer carries HTTP, so its framing is not checked any more.
// Bytes of the new protocol may have arrived with the request.
func StopFramingCheck(c net.Conn) {
	if l := connFraming(c); l != nil {
		l.state, l.err = stateOff, nil
	}
}

func connFraming(c net.Conn) *framingChecker {
	switch c := c.(type) {
	case *Conn:
		return &c.framing
	case *tlsConn:
		return &c.framing
	}
	return nil
}

// Read reads from the client. If the framing of a request is malformed, Read returns one of the
// errors in framing.go. If the connection is idle, Read returns io.EOF to park it, or after
// CloseGracefully.
func (c *Conn) Read(p []byte) (int, error) {
	if c.proxyHeader != nil {
		return c.readPastProxyHeader(p)
	}
	if c.ln.usesTLS {
		return c.read(p)
	}
	if err := c.framing.err; err != nil {
		return 0, err
	}
	if len(c.nextRequestBytes) > 0 {
		n := copy(p, c.nextRequestBytes)
		n -= len(c.ln.checkFraming(&c.framing, p[:n], nil))
		if c.nextRequestBytes = c.nextRequestBytes[n:]; len(c.nextRequestBytes) == 0 {
			c.nextRequestBytes = nil
		}
		return n, nil
	}
	n, err := c.read(p)
	if err == errPark { //nolint:errorlint // read does not wrap it
		c.DetachOnClose(c.park)
		return 0, io.EOF
	}
	return c.splitAtRequestEnd(p[:n], err), err
}

// splitAtRequestEnd checks the framing of the bytes that a read has returned. It returns how many of
// the bytes belong to the request, and stores the bytes after its end for the next read. When a
// stream is detached from the server, the server's buffers therefore contain no bytes of the next
// request.
func (c *Conn) splitAtRequestEnd(p []byte, err error) int {
	rest := c.ln.checkFraming(&c.framing, p, err)
	if len(rest) > 0 {
		c.nextRequestBytes = bytes.Clone(rest)
	}
	return len(p) - len(rest)
}
