package listen

import (
	"crypto/tls"
	"net"
	"testing"
)

// TestSenderOf checks that each connection caches its last key, with and without TLS, and that
// connections of other types cache no key.
func TestSenderOf(t *testing.T) {
	ln := open(t, Options{})
	one, _ := pair(t, ln)
	two, _ := pair(t, ln)
	last := RequestSender(one).Last
	switch {
	case last == nil || RequestSender(one).Last != last:
		t.Error("a connection remembers no key")
	case RequestSender(two).Last == last:
		t.Error("two connections remember one key")
	case RequestSender(&tlsConn{Conn: tls.Server(one, &tls.Config{}), peerResolved: true}).Last != last:
		t.Error("beneath TLS the connection's key is not found")
	}
	if s := RequestSender(&net.TCPConn{}); s.Last != nil || s.Peer != nil {
		t.Errorf("of a foreign connection is known %v", s)
	}
}
