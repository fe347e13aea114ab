package listen

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vanish makes the host of a connection's end disappear: what comes is dropped before TCP sees it, so nothing is acknowledged and
// nothing is reset.
func vanish(t *testing.T, c *net.TCPConn) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	onSocket(t, c, func(fd int) error {
		return unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
	})
}

func onSocket(t *testing.T, c *net.TCPConn, f func(fd int) error) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = f(int(fd)) }); err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		t.Fatal(failed)
	}
}

// TestClientWhoseHostVanished: the watch tells of it although no byte of the connection comes any more, and no write fails.
func TestClientWhoseHostVanished(t *testing.T) {
	l := open(t, Options{Silence: 300 * time.Millisecond})
	c, client := pair(t, l)
	w := newWaiter()
	if c.Begin(w) {
		t.Fatal("gone already")
	}
	vanish(t, client)
	if _, err := c.Write([]byte("data: token\n\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.at:
	case <-time.After(10 * time.Second): // the system alone takes a quarter of an hour
		t.Error("it was not noticed")
	}
	c.End(w)
}

// TestSilenceFollowsTheClocks: what counts is the write clock of the answer, then that of a reload.
func TestSilenceFollowsTheClocks(t *testing.T) {
	l := open(t, Options{Silence: 30 * time.Second})
	want := func(c *Conn, d time.Duration) {
		t.Helper()
		onSocket(t, c.TCPConn, func(fd int) error {
			ms, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
			if got := time.Duration(ms) * time.Millisecond; got != d {
				t.Errorf("the socket gives up after %v, want %v", got, d)
			}
			return err
		})
	}
	first, _ := pair(t, l)
	want(first, 30*time.Second)
	first.WriteWithin(5 * time.Minute)
	want(first, 5*time.Minute)
	first.WriteWithin(0)
	want(first, 5*time.Minute)
	l.SetSilence(time.Minute)
	second, _ := pair(t, l)
	want(second, time.Minute)
}
