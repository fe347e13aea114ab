package listen

import (
	"net"
)

// SetIdle records that a connection from Accept waits for a request.
func SetIdle(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.idle.idle()
	}
	if l := framingOf(c); l != nil {
		l.enable()
	}
}

// SetActive records that c serves a request. Call it once for each request, after the request's
// first byte has been received.
func SetActive(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.asked = true
		conn.idle.begun(conn.known.Load())
	}
	if l := framingOf(c); l != nil {
		l.takeRequest()
	}
}

// RequestReceived records that the head of a request on c is complete. The listener does not evict
// c until the answer has been written.
func RequestReceived(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.idle.complete()
	}
}

// ShowedKey marks c as the connection of a client that has presented a key. Connections without
// this mark are evicted first.
func (c *Conn) ShowedKey() {
	if !c.known.Load() {
		c.known.Store(true)
	}
}

// FramingError returns ErrBareLine, ErrEmptyLines, ErrFraming or ErrNotHTTP if the request that is being served
// on c has that error in the bytes read so far, and otherwise nil. The server may already have
// parsed a request that was read in one piece, without reaching the error.
func FramingError(c net.Conn) error {
	if l := framingOf(c); l != nil && l.current() {
		return l.err
	}
	return nil
}

// PlainHead reports whether the head of the request that is being served on c has no line that
// fasthttp may read differently from another parser.
func PlainHead(c net.Conn) bool {
	l := framingOf(c)
	return l != nil && l.current() && l.headComplete && !l.oddHead
}

// BodyFramingError is FramingError for a request whose body was read to its end. It also returns
// ErrFraming if the body is incomplete, because the end of the connection is not the end of a
// chunked body.
func BodyFramingError(c net.Conn) error {
	l := framingOf(c)
	switch {
	case l == nil || l.state == stateOff || !l.current():
		return nil
	case l.err != nil:
		return l.err
	case l.state != stateRequestLine:
		return ErrFraming
	}
	return nil
}

// RequestComplete reports whether the request that is being served on c, including its body, was
// read to its end. Reading it then no longer blocks.
func RequestComplete(c net.Conn) bool {
	l := framingOf(c)
	return l != nil && l.requestComplete()
}

// RequestTruncated reports whether the client has left, or closed its side, before the end of the
// request that is being served on c, although the request is well formed so far. It can be true
// only after a read has returned the end of the connection.
func RequestTruncated(c net.Conn) bool {
	l := framingOf(c)
	return l != nil && l.truncated()
}

// RequestPath returns the path of the request on c, as far as it has been read, and whether the
// head is complete. fasthttp forgets the path of a request whose head is too large or whose body
// never starts. The bytes are valid until the next request.
func RequestPath(c net.Conn) (path []byte, headComplete bool) {
	if l := framingOf(c); l != nil {
		return l.requestPath(), l.headComplete && l.current()
	}
	return nil, false
}

// Upgraded records that c carries no HTTP from now on, so its framing is no longer checked. Bytes
// of the new protocol that were received with the request are not an error.
func Upgraded(c net.Conn) {
	if l := framingOf(c); l != nil {
		l.state, l.err = stateOff, nil
	}
}

func framingOf(c net.Conn) *framingChecker {
	switch c := c.(type) {
	case *Conn:
		return &c.framing
	case *tlsConn:
		return &c.framing
	}
	return nil
}

// Read reads from the client. A request with malformed framing ends with ErrBareLine, ErrFraming or
// ErrNotHTTP. After CloseGracefully, Read ends an idle connection.
func (c *Conn) Read(p []byte) (int, error) {
	if c.header != nil {
		return c.readBehindHeader(p)
	}
	if c.unread.any() {
		return c.unread.read(p)
	}
	if c.ln.tls {
		return c.read(p)
	}
	if err := c.framing.err; err != nil {
		return 0, err
	}
	n, err := c.read(p)
	c.ln.checkFraming(&c.framing, p[:n], err)
	return n, err
}
