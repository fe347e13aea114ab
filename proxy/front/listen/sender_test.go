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
	last := SenderOf(one).Last
	switch {
	case last == nil || SenderOf(one).Last != last:
		t.Error("a connection remembers no key")
	case SenderOf(two).Last == last:
		t.Error("two connections remember one key")
	case SenderOf(&tlsConn{Conn: tls.Server(one, &tls.Config{}), peerKnown: true}).Last != last:
		t.Error("beneath TLS the connection's key is not found")
	}
	if s := SenderOf(&net.TCPConn{}); s.Last != nil || s.Peer != nil {
		t.Errorf("of a foreign connection is known %v", s)
	}
}
