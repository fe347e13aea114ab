package listen

import (
	"net"

	"penstock/proxy/guard"
)

// Idle tells c, which Accept has returned, that it waits for a request.
func Idle(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.setIdle(true)
	}
	if l := linesOf(c); l != nil {
		l.idle()
	}
}

// Active tells c that the server takes up a request whose first byte is there: once for each.
func Active(c net.Conn) {
	if conn := ConnOf(c); conn != nil && !conn.ln.makeRoom {
		conn.setIdle(false)
	}
	if l := linesOf(c); l != nil {
		l.active()
	}
}

// Begun tells c, of a listener that makes room, that a request has come whole: it is not made to leave before its answer is out.
func Begun(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.setIdle(false)
	}
}

// Broken returns ErrBareLine, ErrFraming or ErrNotHTTP when the request that is being served on c is wrong so, as far as it has come:
// what was read in one piece may be parsed without coming to the error. Otherwise it returns nil.
func Broken(c net.Conn) error {
	if l := linesOf(c); l != nil && l.current() {
		return l.bad
	}
	return nil
}

// Whole is Broken for a request whose body was read to its end: ErrFraming as well when the framing has not come to its own,
// since the connection's end is not that of a chunked body.
func Whole(c net.Conn) error {
	l := linesOf(c)
	switch {
	case l == nil || l.at == placeNone || !l.current():
		return nil
	case l.bad != nil:
		return l.bad
	case l.at != placeRequest:
		return ErrFraming
	}
	return nil
}

// Arrived reports whether the request that is being served on c has come to its end, body and all: reading it waits for nothing.
func Arrived(c net.Conn) bool {
	l := linesOf(c)
	return l != nil && l.arrived()
}

// Cut reports whether the client has left, or ended its side, in the midst of the request that is being served on c: it was
// well formed as far as it has come. It is known once reading has come to that end.
func Cut(c net.Conn) bool {
	l := linesOf(c)
	return l != nil && l.cut()
}

// Target returns the beginning of the path that the request on c is for, as far as it has come, and whether the head has come
// whole. fasthttp forgets the path of a request whose head is too large or whose body never begins. The bytes are good until
// the next request.
func Target(c net.Conn) (path []byte, whole bool) {
	if l := linesOf(c); l != nil {
		return l.path(), l.whole && l.current()
	}
	return nil, false
}

func linesOf(c net.Conn) *lines {
	switch c := c.(type) {
	case *Conn:
		return &c.lines
	case *tlsConn:
		return &c.lines
	}
	return nil
}

// Read reads what the client sends. ErrBareLine, ErrFraming and ErrNotHTTP end a request, and after Leave a connection that has nothing to do ends.
func (c *Conn) Read(p []byte) (int, error) {
	if c.dry || len(c.unread) > 0 {
		return c.reread(p)
	}
	if c.ln.tls {
		return c.read(p)
	}
	if err := c.lines.bad; err != nil {
		return 0, err
	}
	n, err := c.read(p)
	c.ln.follow(&c.lines, p[:n], err)
	return n, err
}

// follow has a connection's lines look at what a read brought. A panic of theirs, who read what strangers write, ends the
// connection.
func (l *Listener) follow(to *lines, p []byte, err error) {
	defer l.guard.Catch(guard.Connection, func() { to.bad = ErrFraming })
	l.guard.Point("lines")
	to.look(p)
	if err != nil {
		to.failed(err)
	}
}
