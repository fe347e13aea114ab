package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
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
	if conn := ConnOf(c); conn != nil {
		conn.setIdle(false)
	}
	if l := linesOf(c); l != nil {
		l.active()
	}
}

// Broken returns ErrBareLine or ErrFraming when the request that is being served on c is wrong so, as far as it has come:
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

// Read reads what the client sends. ErrBareLine and ErrFraming end a request, and after Leave a connection that has nothing to do ends.
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
	c.lines.look(p[:n])
	if err != nil {
		c.lines.failed(err)
	}
	return n, err
}

// TLS puts TLS in front of l, whose clients speak it. A handshake runs on the connection's own goroutine.
func (l *Listener) TLS(config *tls.Config) net.Listener { return &tlsListener{l, config} }

type tlsListener struct {
	*Listener
	config *tls.Config
}

// Accept implements net.Listener.
func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{Conn: tls.Server(c, l.config), ln: l.Listener}, nil
}

// tlsConn is a connection whose bytes are known above TLS only.
type tlsConn struct {
	*tls.Conn
	ln    *Listener
	told  bool // that it speaks plain HTTP
	lines lines
}

// Read reads as its connection does; ErrBareLine and ErrFraming end a request.
func (c *tlsConn) Read(p []byte) (int, error) {
	if err := c.lines.bad; err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if err != nil && !c.told {
		c.told = c.tellPlain(err)
	}
	c.lines.look(p[:n])
	if err != nil {
		c.lines.failed(err)
	}
	return n, err
}

const spokePlain = `{"error":{"message":"This port speaks TLS, and the request came without it: write https in its URL.","type":"invalid_request_error","code":"bad_request","param":null}}`

// plainBegins is how requests begin, by as much of them as a TLS record's header is long.
var plainBegins = []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET"}

// tellPlain answers a client that sent plain HTTP in place of a handshake: it can read that, and would else see nothing but
// the end of its connection.
func (c *tlsConn) tellPlain(err error) bool {
	var first tls.RecordHeaderError
	if !errors.As(err, &first) || first.Conn == nil || !slices.Contains(plainBegins, string(first.RecordHeader[:])) {
		return false
	}
	if conn := ConnOf(first.Conn); conn != nil {
		conn.WriteWithin(refusalWrite)
		conn.Linger()
		_, _ = conn.Write(c.ln.refusal("HTTP/1.1 400 Bad Request\r\n", spokePlain))
	}
	return true
}
