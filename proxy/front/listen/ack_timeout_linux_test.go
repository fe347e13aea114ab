package listen

import (
	"errors"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dropClientPackets simulates that the client's host has vanished. Packets are dropped before TCP
// receives them, so they are not acknowledged, and the connection is not reset.
func dropClientPackets(t *testing.T, client *net.TCPConn) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	raw, err := client.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
		}), err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// openWithAckInterval returns a listener like open, but with the given interval between
// acknowledgment checks.
func openWithAckInterval(t *testing.T, every time.Duration) *Listener {
	t.Helper()
	l := open(t, Options{})
	w, err := newDisconnectWatchEvery(l, every)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.disconnectWatch.close(); err != nil {
		t.Fatal(err)
	}
	l.disconnectWatch = w
	return l
}

// TestHostVanishes checks that a client counts as disconnected if its host vanishes while it
// receives an answer. A client that does not read, or that has no bytes to acknowledge, must not
// count as disconnected.
func TestHostVanishes(t *testing.T) {
	const every = 100 * time.Millisecond
	l := openWithAckInterval(t, every)
	write := func(c *Conn, size int) {
		t.Helper()
		_ = c.rawConn.SetWriteDeadline(time.Now().Add(every))
		_, _ = c.Write(make([]byte, size)) // may be larger than the buffers
	}
	gone, goneClient := pair(t, l)
	late, _ := pair(t, l)
	quiet, quietClient := pair(t, l)
	waiters := map[*Conn]*waiter{gone: newWaiter(), late: newWaiter(), quiet: newWaiter()}
	for c, w := range waiters {
		c.WatchDisconnect(w)
		defer c.UnwatchDisconnect(w)
	}
	write(late, 8<<20)
	dropClientPackets(t, quietClient) // while no bytes are in flight
	time.Sleep((checksUntilAckTimeout + 3) * every)
	dropClientPackets(t, goneClient)
	write(gone, 1)
	select {
	case <-waiters[gone].at:
	case <-time.After(30 * time.Second):
		t.Error("a client whose host has vanished is still waited for")
	}
	for c, name := range map[*Conn]string{late: "reads late", quiet: "was told nothing"} {
		if waiters[c].called.Load() != 0 {
			t.Errorf("a client that %s counts as gone", name)
		}
	}
}

// TestHostIsSilentForAWhile checks that a client does not count as disconnected if its host starts
// acknowledging bytes again in time.
func TestHostIsSilentForAWhile(t *testing.T) {
	l := openWithAckInterval(t, time.Hour)
	server, client := pair(t, l)
	w := newWaiter()
	server.WatchDisconnect(w)
	defer server.UnwatchDisconnect(w)
	dropClientPackets(t, client)
	_, _ = server.Write([]byte("x"))
	time.Sleep(10 * time.Millisecond)
	for range checksUntilAckTimeout - 1 {
		l.disconnectWatch.checkAcks(time.Millisecond)
	}
	raw, _ := client.SyscallConn()
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	l.disconnectWatch.checkAcks(time.Millisecond)
	if w.called.Load() != 0 {
		t.Error("a host that was heard again counts as gone")
	}
}
