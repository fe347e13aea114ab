package listen

import (
	"crypto/tls"
	"errors"
	"net"
	"slices"

	"penstock/proxy/access/auth"
	"penstock/proxy/access/auth/cert"
)

// TLS returns a listener that speaks TLS on the connections of l. A handshake runs on the
// connection's own goroutine.
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

// tlsConn is a TLS connection. It checks the framing of the decrypted bytes.
type tlsConn struct {
	*tls.Conn
	ln            *Listener
	answeredPlain bool // the client sent plain HTTP, which was answered
	framing       framingChecker
	peer          *cert.Peer // see PeerOf
	peerKnown     bool
}

// SenderOf returns what is known about the client that sends requests on c. Only the goroutine that
// serves c's requests may call SenderOf and use the result.
func SenderOf(c net.Conn) (s auth.Sender) {
	s.Peer = PeerOf(c)
	if ours := ConnOf(c); ours != nil {
		s.Last = &ours.lastKey
	}
	return s
}

// PeerOf returns the peer that the client certificate of c names, or nil without a certificate. A
// connection of another type may provide its peer with a method CertificatePeer. Only the goroutine
// that serves c's requests may call PeerOf.
func PeerOf(c net.Conn) *cert.Peer {
	switch c := c.(type) {
	case *tlsConn:
		if !c.peerKnown {
			c.peer, c.peerKnown = cert.NewPeer(c.ConnectionState().PeerCertificates), true
		}
		return c.peer
	case interface{ CertificatePeer() *cert.Peer }:
		return c.CertificatePeer()
	}
	return nil
}

// Read reads from the TLS connection. A request with malformed framing ends with ErrBareLine,
// ErrFraming or ErrNotHTTP.
func (c *tlsConn) Read(p []byte) (int, error) {
	if err := c.framing.err; err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	if err != nil && !c.answeredPlain {
		c.answeredPlain = c.answerPlainHTTP(err)
	}
	c.ln.checkFraming(&c.framing, p[:n], err)
	return n, err
}

const plainHTTPBody = `{"error":{"message":"This port speaks TLS, and the request came without it: write https in its URL.","type":"invalid_request_error","code":"bad_request","param":null}}`

// methodPrefixes lists the first bytes of plain HTTP requests, cut to the length of a TLS record
// header.
var methodPrefixes = []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "PATCH", "DELET"}

// answerPlainHTTP answers a client that sent plain HTTP instead of a handshake. Without the answer
// the client would only see its connection close.
func (c *tlsConn) answerPlainHTTP(err error) bool {
	var first tls.RecordHeaderError
	if !errors.As(err, &first) || first.Conn == nil || !slices.Contains(methodPrefixes, string(first.RecordHeader[:])) {
		return false
	}
	if conn := ConnOf(first.Conn); conn != nil {
		conn.SetWriteTimeout(refusalTimeout)
		conn.Linger()
		_, _ = conn.Write(c.ln.refusalResponse("HTTP/1.1 400 Bad Request\r\n", plainHTTPBody))
	}
	return true
}
