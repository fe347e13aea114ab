package listen

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
)

// ErrBareLine is what reading a request's head fails with when a line of it does not end in CR LF.
var ErrBareLine = errors.New("a line of the head does not end in CR LF")

// lines looks at the bytes of a request's head as they are read. A parser that wants CR LF waits for the rest of a head whose
// lines end otherwise until the header's clock runs out; here the first such line ends the reading. Only the goroutine that
// serves the connection uses it.
//
// It must not take a body for a head. fasthttp says when it waits for a request (Idle) and when the first byte of one is there
// (Active): a head is looked at only when its first byte was read between the two. One that was read together with the request
// before, by a client that does not wait for answers, is not.
type lines struct {
	at    linesAt
	begun bool // a line that is not empty has come
	some  bool // the line that is being read is not empty
	cr    bool // it ends in CR so far
	whole bool // the blank line has come
	bare  bool // a line ends in CR or LF alone

	first [64]byte // the beginning of the request line
	kept  uint8    // of it
}

type linesAt uint8

const (
	linesOff   linesAt = iota // a body, or what cannot be told from one
	linesAwait                // the next byte begins a request
	linesHead
)

// look looks at what was read. Behind a line that ends in CR or LF alone, reading fails: not with it, because fasthttp takes any
// error of the first byte for the connection's end and gives no answer.
func (l *lines) look(p []byte) {
	if l.at != linesOff && len(p) > 0 {
		l.at = linesHead
		l.bare = !l.scan(p)
	}
}

// scan looks at more of a head. It returns false for a line that ends in CR or LF alone.
func (l *lines) scan(p []byte) bool {
	for len(p) > 0 {
		if l.cr {
			if p[0] != '\n' {
				return false
			}
			p = p[1:]
			l.cr = false
			if !l.some && l.begun {
				l.at, l.whole = linesOff, true
				return true
			}
			l.begun, l.some = l.begun || l.some, false
			continue
		}
		end := bytes.IndexByte(p, '\r')
		line := p
		if end >= 0 {
			line, l.cr = p[:end], true
		}
		if bytes.IndexByte(line, '\n') >= 0 {
			return false
		}
		l.some = l.some || len(line) > 0
		if !l.begun {
			l.kept += uint8(copy(l.first[l.kept:], line))
		}
		p = p[len(line):]
		if l.cr {
			p = p[1:]
		}
	}
	return true
}

// Idle tells c, which Accept has returned, that it waits for a request: unless some are there already, the next bytes to be
// read begin it. Every new connection is told so, too.
func Idle(c net.Conn) {
	if l := linesOf(c); l != nil {
		*l = lines{at: linesAwait}
	}
	if conn := ConnOf(c); conn != nil {
		conn.setIdle(true)
	}
}

// Active tells c that the first byte of a request is there.
func Active(c net.Conn) {
	if conn := ConnOf(c); conn != nil {
		conn.setIdle(false)
	}
	if l := linesOf(c); l != nil && l.at == linesAwait {
		l.at = linesOff
	}
}

// BareLine reports whether the head of the request on c has a line that ends in CR or LF alone: one that was read in one piece
// may be parsed without coming to ErrBareLine.
func BareLine(c net.Conn) bool {
	l := linesOf(c)
	return l != nil && l.bare
}

// Target returns the beginning of the path that the request on c is for, when its head has come whole and was looked at, and
// nil otherwise. fasthttp forgets the path of a request whose body never begins. The bytes are good until the next request.
func Target(c net.Conn) []byte {
	l := linesOf(c)
	if l == nil || !l.whole {
		return nil
	}
	_, rest, _ := bytes.Cut(l.first[:l.kept], []byte{' '})
	if end := bytes.IndexAny(rest, " ?"); end >= 0 {
		rest = rest[:end]
	}
	return rest
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

// Read reads what the client sends. ErrBareLine ends a head, and after Leave a connection that has nothing to do ends.
func (c *Conn) Read(p []byte) (int, error) {
	if c.dry || len(c.unread) > 0 {
		return c.reread(p)
	}
	if c.ln.tls {
		return c.read(p)
	}
	if c.lines.bare {
		return 0, ErrBareLine
	}
	n, err := c.read(p)
	c.lines.look(p[:n])
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
	return &tlsConn{Conn: tls.Server(c, l.config)}, nil
}

// tlsConn is a connection whose bytes are known above TLS only.
type tlsConn struct {
	*tls.Conn
	lines lines
}

// Read reads as its connection does; ErrBareLine ends a head.
func (c *tlsConn) Read(p []byte) (int, error) {
	if c.lines.bare {
		return 0, ErrBareLine
	}
	n, err := c.Conn.Read(p)
	c.lines.look(p[:n])
	return n, err
}
