package listen

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"
)

// TestStaleEvent checks an event that was fetched before its connection was closed. The event must
// not affect a new connection that uses the same descriptor.
func TestStaleEvent(t *testing.T) {
	l := open(t, Options{})
	first, _ := pair(t, l)
	// The client dials before the close makes a descriptor available.
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	stale := unix.EpollEvent{Events: unix.EPOLLRDHUP, Fd: int32(first.fd), Pad: int32(first.generation)}
	first.Close()
	l.watch.dispatch(stale) // no connection uses the descriptor
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	next := accepted.(*Conn)
	defer next.Close()
	if int32(next.fd) != stale.Fd {
		t.Skip("the descriptor was reused")
	}
	w := newWaiter()
	next.Watch(w)
	defer next.Unwatch(w)
	l.watch.dispatch(stale)
	w.mustNotBeCalled(t)
	l.watch.dispatch(unix.EpollEvent{Events: unix.EPOLLRDHUP, Fd: int32(next.fd), Pad: int32(next.generation)})
	if w.called.Load() != 1 {
		t.Error("the connection's own event does not reach the call")
	}
}
