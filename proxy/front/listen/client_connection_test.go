package listen

import (
	"crypto/tls"
	"net"
	"testing"
)

// TestClientConnection checks that each connection caches its last key, with and without TLS, and
// that connections of other types cache no key.
func TestClientConnection(t *testing.T) {
	ln := open(t, Options{})
	one, _ := pair(t, ln)
	two, _ := pair(t, ln)
	last := AuthConnection(one).Last
	switch {
	case last == nil || AuthConnection(one).Last != last:
		t.Error("a connection remembers no key")
	case AuthConnection(two).Last == last:
		t.Error("two connections remember one key")
	case AuthConnection(&tlsConn{Conn: tls.Server(one, &tls.Config{}), peerResolved: true}).Last != last:
		t.Error("beneath TLS the connection's key is not found")
	}
	if s := AuthConnection(&net.TCPConn{}); s.Last != nil || s.Peer != nil {
		t.Errorf("of a foreign connection is known %v", s)
	}
}

// TestRecycleAfterResponse checks that the buffer of a response is recycled once, when its
// connection waits for the next request. For other types of connections, such as those of WebSocket
// calls, it must not be recycled.
func TestRecycleAfterResponse(t *testing.T) {
	recycled := 0
	recycle := func(*[]byte) { recycled++ }
	c := &Conn{}
	if !RecycleAfterResponse(c, new([]byte), recycle) || recycled != 0 {
		t.Fatalf("recycled %d times before the response is written", recycled)
	}
	SetConnActive(c)
	SetConnIdle(c)
	SetConnIdle(c)
	if recycled != 1 {
		t.Errorf("recycled %d times, want once", recycled)
	}
	if RecycleAfterResponse(struct{ net.Conn }{c}, new([]byte), recycle) {
		t.Error("the connection of a WebSocket never becomes idle again")
	}
}
