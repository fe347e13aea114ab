//go:build unix

package listen

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// socketIn returns a path for a Unix socket in a new folder, and its address.
func socketIn(t *testing.T) (file, address string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "edge.sock")
	return file, "unix:" + file
}

func openUnix(t *testing.T, address string, how PortOptions) net.Listener {
	t.Helper()
	ln, err := Listen(address, how)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func TestUnixSocket_Mode(t *testing.T) {
	for suffix, want := range map[string]fs.FileMode{"": 0o660, "|0600": 0o600, "|0666": 0o666} {
		file, address := socketIn(t)
		ln := openUnix(t, address+suffix, PortOptions{})
		if got := ln.Addr().String(); got != address || ln.Addr().Network() != "unix" {
			t.Errorf("address %q", got)
		}
		is, err := os.Lstat(file)
		if err != nil || is.Mode() != fs.ModeSocket|want {
			t.Errorf("%q: %v, %v", suffix, is, err)
		}
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the close: %v", err)
		}
	}
}

// TestUnixSocket_AtThePath checks that a socket is replaced if no process listens on it. A socket
// on which a process listens, or any other file, must not be replaced.
func TestUnixSocket_AtThePath(t *testing.T) {
	file, address := socketIn(t)
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(address, PortOptions{}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a live socket: %v", err)
	}
	c, err := net.Dial("unix", file)
	if err != nil {
		t.Fatalf("the live socket no longer accepts: %v", err)
	}
	_ = c.Close()
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	if err := openUnix(t, address, PortOptions{}).Close(); err != nil {
		t.Errorf("a stale socket: %v", err)
	}

	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, how := range []PortOptions{{}, {ReusePort: true}} {
		if _, err := Listen(address, how); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf("%+v: a file: %v", how, err)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "mine" {
		t.Errorf("the file: %q, %v", b, err)
	}
	if _, err := Listen(address+"/none/edge.sock", PortOptions{}); err == nil || !strings.Contains(err.Error(), "there is no folder") {
		t.Errorf("no folder: %v", err)
	}
}

// send sends a line, which answerAll will answer.
func send(t *testing.T, c net.Conn) {
	t.Helper()
	if _, err := io.WriteString(c, "word\n"); err != nil {
		t.Error(err)
	}
}

func wantAnswer(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	if got, err := bufio.NewReader(c).ReadString('\n'); got != "WORD\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestUnixSocket_TakeOver checks that a second process takes over the path. The first process must
// serve its accepted and queued connections, and must not remove the socket of the second process.
func TestUnixSocket_TakeOver(t *testing.T) {
	file, address := socketIn(t)
	first := wrap(t, openUnix(t, address, PortOptions{}), Options{})
	early, err := net.Dial("unix", file) // in the accept queue
	if err != nil {
		t.Fatal(err)
	}
	defer early.Close()
	send(t, early)
	// A failed start does not affect the first process.
	_ = openUnix(t, address, PortOptions{ReusePort: true}).Close()
	if c, err := net.Dial("unix", file); err != nil {
		t.Fatalf("the first lost its path: %v", err)
	} else {
		c.Close()
	}
	open := openUnix(t, address, PortOptions{ReusePort: true})
	if err := TakeOverPath(open); err != nil {
		t.Fatal(err)
	}
	second := wrap(t, open, Options{})
	late, err := net.Dial("unix", file)
	if err != nil {
		t.Fatal(err)
	}
	defer late.Close()
	send(t, late)
	firstEnded, secondEnded := answerAll(first, func() {}), answerAll(second, func() {})
	first.CloseGracefully()
	<-firstEnded
	wantAnswer(t, early)
	wantAnswer(t, late)
	if _, err := os.Lstat(file); err != nil {
		t.Errorf("the first has removed the second's socket: %v", err)
	}
	second.CloseGracefully()
	<-secondEnded
	if left, _ := os.ReadDir(filepath.Dir(file)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestUnixSocket_CloseGracefully checks that CloseGracefully serves the connections in the accept
// queue.
func TestUnixSocket_CloseGracefully(t *testing.T) {
	file, address := socketIn(t)
	l := wrap(t, openUnix(t, address, PortOptions{}), Options{})
	var waiting []net.Conn
	for range 5 {
		c, err := net.Dial("unix", file)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		send(t, c)
		waiting = append(waiting, c)
	}
	ended := answerAll(l, func() {})
	l.CloseGracefully()
	<-ended
	if _, err := net.Dial("unix", file); err == nil {
		t.Error("connected after the close")
	}
	for _, c := range waiting {
		wantAnswer(t, c)
	}
}

func unixPair(t *testing.T, l *Listener) (server *Conn, client net.Conn) {
	t.Helper()
	client, err := net.Dial("unix", strings.TrimPrefix(l.Addr().String(), "unix:"))
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = accepted.Close() })
	return accepted.(*Conn), client
}

// TestUnixSocket_PerAddress checks that the maximum per address does not apply to peers of a Unix
// socket, because they have no address.
func TestUnixSocket_PerAddress(t *testing.T) {
	_, address := socketIn(t)
	l := wrap(t, openUnix(t, address, PortOptions{}), Options{MaxPerAddress: 1})
	for range 3 {
		unixPair(t, l)
	}
	if l.RejectedCount() > 0 || l.OpenConnCount() != 3 {
		t.Errorf("%d rejected, %d open", l.RejectedCount(), l.OpenConnCount())
	}
}

// TestUnixSocket_ProxyHeader checks that a peer of a Unix socket may send a PROXY protocol header
// only if unix is listed.
func TestUnixSocket_ProxyHeader(t *testing.T) {
	for _, listed := range []bool{true, false} {
		_, address := socketIn(t)
		l := wrap(t, openUnix(t, address, PortOptions{}), Options{})
		l.SetProxies([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, listed)
		server, client := unixPair(t, l)
		_, _ = io.WriteString(client, "PROXY TCP4 10.1.2.3 127.0.0.1 8080 4000\r\n"+request)
		got := make([]byte, 3)
		n, _ := io.ReadFull(server, got)
		if listed && (string(got[:n]) != "GET" || server.RemoteAddr().String() != "10.1.2.3:8080") {
			t.Errorf("listed: reads %q from %v", got[:n], server.RemoteAddr())
		}
		if !listed && (n > 0 || l.ProxyHeaderFailures().Unlisted != 1) {
			t.Errorf("unlisted: reads %q, counted %+v", got[:n], l.ProxyHeaderFailures())
		}
	}
}

// TestUnixSocket_ClientGone checks that the watch detects that a client of a Unix socket has
// disconnected.
func TestUnixSocket_ClientGone(t *testing.T) {
	_, address := socketIn(t)
	l := wrap(t, openUnix(t, address, PortOptions{}), Options{})
	server, client := unixPair(t, l)
	w := newWaiter()
	if server.WatchDisconnect(w) {
		t.Fatal("gone already")
	}
	defer server.UnwatchDisconnect(w)
	_ = client.Close()
	waitFor(t, server.IsClientGone)
}

// TestInherit_UnixSocket checks that a service manager's Unix socket is used and stays at its path.
func TestInherit_UnixSocket(t *testing.T) {
	file, address := socketIn(t)
	manager, err := net.ListenUnix("unix", &net.UnixAddr{Name: file, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	f, err := manager.File()
	if err != nil {
		t.Fatal(err)
	}
	var ours net.Listener
	if err := inheritSocket(f, &ours); err != nil {
		t.Fatal(err)
	}
	if got := ours.Addr().String(); got != address {
		t.Errorf("address %q", got)
	}
	l := wrap(t, ours, Options{KeepSocket: true})
	unixPair(t, l)
	l.CloseGracefully()
	if _, err := os.Lstat(file); err != nil {
		t.Error(err)
	}
}
