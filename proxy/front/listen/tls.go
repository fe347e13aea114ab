package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/cert"
)

// WithTLS returns a listener that accepts connections from l and adds TLS to them. Each handshake
// runs on the goroutine of its connection.
func (l *Listener) WithTLS(config *tls.Config) net.Listener { return &tlsListener{l, config} }

type tlsListener struct {
	*Listener
	config *tls.Config
}

func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{Conn: tls.Server(c, l.config), ln: l.Listener}, nil
}

// tlsConn is a TLS connection. It checks the framing of the decrypted bytes.
type tlsConn struct {
	*tls.Conn
	ln            *Listener
	answeredPlain bool
	framing       framingChecker
	peer          *cert.Peer // see TLSPeer
	peerResolved  bool
}

// AuthConnection returns the auth.ClientConnection for the requests on c. Only the goroutine that
// serves c may call it and use the result.
func AuthConnection(c net.Conn) (s auth.ClientConnection) {
	s.Peer = TLSPeer(c)
	if ours := UnwrapConn(c); ours != nil {
		s.Last = &ours.lastKey
	}
	return s
}

// TLSPeer returns the identity from the client's TLS certificate on c, or nil. A connection of
// another type may provide this identity by implementing CertificatePeer. Only the goroutine that
// serves c may call TLSPeer.
func TLSPeer(c net.Conn) *cert.Peer {
	switch c := c.(type) {
	case *Conn: // comes first, because the check for a method takes longer
		return nil
	case *tlsConn:
		if !c.peerResolved {
			c.peer, c.peerResolved = cert.NewPeer(c.ConnectionState().PeerCertificates), true
		}
		return c.peer
	case interface{ CertificatePeer() *cert.Peer }:
		return c.CertificatePeer()
	}
	return nil
}

// Read reads from the TLS connection. If the framing of a request is malformed, it returns the same
// errors as Conn.Read.
func (c *tlsConn) Read(p []byte) (int, error) {
	if err := c.framing.err; err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if err != nil && !c.answeredPlain {
		c.answeredPlain = c.answerPlainHTTP(err)
	}
	for rest := p[:n]; ; {
		if rest = c.ln.checkFraming(&c.framing, rest, err); len(rest) == 0 {
			return n, err
		}
	}
}

const plainHTTPBody = `{"error":{"message":"This port speaks TLS, and the request came without it: write https in its URL.","type":"invalid_request_error","code":"bad_request","param":null}}`

// methodPrefixes are the first bytes of plain HTTP requests, truncated to the length of a TLS
// record header.
var methodPrefixes = []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET"}

// answerPlainHTTP responds to a plain HTTP request. Otherwise, the client would only see that the
// connection closes.
func (c *tlsConn) answerPlainHTTP(err error) bool {
	var first tls.RecordHeaderError
	if !errors.As(err, &first) || first.Conn == nil || !slices.Contains(methodPrefixes, string(first.RecordHeader[:])) {
		return false
	}
	if conn := UnwrapConn(first.Conn); conn != nil {
		conn.SetWriteTimeout(refusalTimeout)
		conn.LingerOnClose()
		_, _ = conn.Write(c.ln.refusalResponse("HTTP/1.1 400 Bad Request\r\n", plainHTTPBody))
	}
	return true
}
