package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"
)

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
	ln      *Listener
	told    bool // that it speaks plain HTTP
	framing framingChecker
}

// Read reads as its connection does; ErrBareLine, ErrFraming and ErrNotHTTP end a request.
func (c *tlsConn) Read(p []byte) (int, error) {
	if err := c.framing.err; err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if err != nil && !c.told {
		c.told = c.tellPlain(err)
	}
	c.ln.checkFraming(&c.framing, p[:n], err)
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
