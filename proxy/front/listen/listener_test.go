package listen

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
)

const reply = "HTTP/1.1 413 Request Entity Too Large\r\nConnection: close\r\nContent-Length: 5\r\n\r\nlarge"

// TestLingerClientWritesEverythingFirst checks that a client that sends 200 MB before it reads
// still receives the early response, over plain TCP and over TLS. The connection must be closed
// when the client closes its side.
func TestLingerClientWritesEverythingFirst(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(map[bool]string{false: "plain", true: "TLS"}[secure], func(t *testing.T) {
			l := open(t, Options{})
			var server, client net.Conn
			size := 200 << 20
			if secure {
				server, client = tlsPair(t, l)
				size = 50 << 20
			} else {
				server, client = pair(t, l)
			}
			l.lingerTime = time.Minute // a busy machine may need more than the usual time for so many bytes
			UnwrapConn(server).LingerOnClose()
			if _, err := io.WriteString(server, reply); err != nil {
				t.Fatal(err)
			}
			if err := server.Close(); err != nil {
				t.Fatal(err)
			}
			if n := l.OpenConnCount(); n != 1 {
				t.Errorf("%d open while it lingers", n)
			}
			piece := make([]byte, 1<<20)
			for sent := 0; sent < size; sent += len(piece) {
				if _, err := client.Write(piece); err != nil {
					t.Fatalf("the client was cut after %d MB: %v", sent>>20, err)
				}
			}
			got, err := io.ReadAll(client)
			if err != nil || string(got) != reply {
				t.Errorf("the client reads %q, %v", got, err)
			}
			client.Close()
			for deadline := time.Now().Add(l.lingerTime / 2); l.OpenConnCount() > 0; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the connection lingers on after its client has closed")
				}
			}
		})
	}
}

// TestCloseReturnsAtOnce checks that Close does not wait if there are no bytes to discard, and that
// a second Close returns an error.
func TestCloseReturnsAtOnce(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	server.LingerOnClose()
	start := time.Now()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := server.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if d := time.Since(start); d > lingerTime/2 {
		t.Errorf("Close took %v", d)
	}
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the client sees %v instead of the end", err)
	}
}

func TestDiscardIsBounded(t *testing.T) {
	server, client := pair(t, open(t, Options{}))
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = client.Write([]byte("x"))
			}
		}
	})
	start := time.Now()
	discardRequest(server.rawConn, start.Add(100*time.Millisecond))
	if d := time.Since(start); d < 90*time.Millisecond || d > 20*time.Second {
		t.Errorf("discarded for %v", d)
	}
	close(stop)
	group.Wait()
}

func TestLingeringIsBounded(t *testing.T) {
	l := open(t, Options{})
	l.lingerSlots.held.Store(defaultLingerConns)
	server, _ := pair(t, l)
	server.LingerOnClose()
	server.Close()
	if n := l.OpenConnCount(); n != 0 {
		t.Errorf("%d open: one too many lingers", n)
	}
	if n := l.lingerSlots.held.Load(); n != defaultLingerConns {
		t.Errorf("%d connections linger, want %d", n, defaultLingerConns)
	}
	l.lingerSlots.held.Store(0)
}

// accept accepts connections and runs serve for each of them until the test ends.
func accept(t *testing.T, l *Listener, serve func(c *Conn)) {
	t.Helper()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				if !errors.Is(err, net.ErrClosed) {
					t.Errorf("Accept: %v, want %v", err, net.ErrClosed)
				}
				return
			}
			group.Go(func() { serve(c.(*Conn)) })
		}
	})
	t.Cleanup(func() { l.Close(); group.Wait() })
}

func TestConnectionLimit(t *testing.T) {
	l := open(t, Options{MaxConns: 2})
	accept(t, l, func(c *Conn) {
		defer c.Close()
		_, _ = io.Copy(c, c)
	})
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	echoes := func(c net.Conn) bool {
		_, _ = c.Write([]byte("x"))
		b := make([]byte, 1)
		_, err := io.ReadFull(c, b)
		return err == nil && b[0] == 'x'
	}
	first, second := dial(), dial()
	if !echoes(first) || !echoes(second) {
		t.Fatal("a connection within the limit is not served")
	}
	var turnedAway []net.Conn
	for range 10 {
		c := dial()
		turnedAway = append(turnedAway, c)
		// The client sends a request with a large body before it reads the response.
		_, err := c.Write(append([]byte("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n"), make([]byte, 1_000_000)...))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		var record struct {
			Error struct{ Message, Type, Code string }
		}
		if err != nil || json.Unmarshal(body, &record) != nil || record.Error.Type != "api_error" || record.Error.Message == "" {
			t.Errorf("body = %q, %v; want an api_error with a message", body, err)
		}
		if seconds, err := strconv.Atoi(res.Header.Get("Retry-After")); res.StatusCode != 503 || err != nil || seconds < 1 || !res.Close {
			t.Errorf("status %d, headers %v", res.StatusCode, res.Header)
		}
	}
	if l.RejectedCount() != 10 || l.OpenConnCount() != 2 {
		t.Errorf("%d rejected, %d open", l.RejectedCount(), l.OpenConnCount())
	}
	// Rejected clients still linger, but must not block other clients.
	first.Close()
	for deadline := time.Now().Add(30 * time.Second); l.OpenConnCount() > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the place does not become free")
		}
	}
	if third := dial(); !echoes(third) {
		t.Error("a place is free and no connection gets it")
	}
	for _, c := range turnedAway {
		c.Close()
	}
	second.Close()
}

// TestConnectionLimitTLS checks that a rejected TLS client gets no plain-text response, because
// plain text is a malformed TLS record.
func TestConnectionLimitTLS(t *testing.T) {
	l := open(t, Options{MaxConns: 1, TLS: true})
	pair(t, l)
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accept(t, l, func(c *Conn) { c.Close() })
	if b, err := io.ReadAll(client); len(b) != 0 {
		t.Errorf("the client reads %q, %v", b, err)
	}
}

// TestEvictConn checks MakeRoom for connections from the same address. A connection above the
// maximum must replace the connection that has waited longest for a complete request. Connections
// whose request is being served must not be evicted. If all connections are being served, the new
// connection must be rejected.
func TestEvictConn(t *testing.T) {
	l := open(t, Options{MaxConns: 3, MakeRoom: true})
	busy, busyClient := pair(t, l)
	SetConnActive(busy)
	MarkHeadersReceived(busy)
	half, halfClient := pair(t, l)
	SetConnActive(half) // only the first byte of a request has arrived
	silent, silentClient := pair(t, l)
	for i, row := range []struct {
		left   *Conn
		client net.Conn
	}{{half, halfClient}, {silent, silentClient}} {
		newcomer, _ := pair(t, l)
		if err := row.left.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("newcomer %d: the one that has waited longest is still open: %v", i, err)
		}
		if _, err := row.client.Read(make([]byte, 1)); err == nil {
			t.Errorf("newcomer %d: its client does not see that", i)
		}
		MarkHeadersReceived(newcomer)
	}
	if l.OpenConnCount() != 3 || l.EvictedCount() != 2 {
		t.Errorf("%d open, %d evicted", l.OpenConnCount(), l.EvictedCount())
	}
	accept(t, l, func(*Conn) { t.Error("a fourth connection is accepted while three are being served") })
	over, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	if res, err := http.ReadResponse(bufio.NewReader(over), nil); err != nil || res.StatusCode != 503 {
		t.Errorf("it is turned away with %v, %v", res, err)
	}
	if _, err := io.WriteString(busy, "x"); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(busyClient, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// nonTCPListener is a listener whose first connection is not a TCP connection.
type nonTCPListener struct {
	net.Listener
	pipe net.Conn
}

func (s *nonTCPListener) Accept() (net.Conn, error) {
	if c := s.pipe; c != nil {
		s.pipe = nil
		return c, nil
	}
	return s.Listener.Accept()
}

// TestAcceptSkipsUnservableConnections checks that Accept does not return an error for a connection
// that cannot be served, because an error would stop the server.
func TestAcceptSkipsUnservableConnections(t *testing.T) {
	ln, err := Listen("127.0.0.1:0", PortOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := net.Pipe()
	l := wrap(t, &nonTCPListener{ln, ours}, Options{})
	pair(t, l)
	if _, err := theirs.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the stranger sees %v", err)
	}
	if l.AcceptErrorCount() != 1 {
		t.Errorf("%d errors counted", l.AcceptErrorCount())
	}
}

// failingListener is a listener whose Accept first returns the given errors.
type failingListener struct {
	net.Listener
	errs []error
}

func (f *failingListener) Accept() (net.Conn, error) {
	if len(f.errs) > 0 {
		err := f.errs[0]
		f.errs = f.errs[1:]
		return nil, err
	}
	return f.Listener.Accept()
}

// TestAcceptBacksOff checks that Accept waits if the process has run out of descriptors. It must
// neither spin nor return an error.
func TestAcceptBacksOff(t *testing.T) {
	ln, err := Listen("127.0.0.1:0", PortOptions{})
	if err != nil {
		t.Fatal(err)
	}
	emfile := &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	l := wrap(t, &failingListener{ln, []error{emfile, emfile, emfile, emfile, syscall.ENOMEM, syscall.ECONNABORTED, emfile}}, Options{})
	start := time.Now()
	server, client := pair(t, l)
	if d := time.Since(start); d < 100*time.Millisecond || d > 30*time.Second {
		t.Errorf("seven errors took %v", d)
	}
	if l.AcceptErrorCount() != 7 {
		t.Errorf("%d errors counted", l.AcceptErrorCount())
	}
	w := newWaiter()
	server.WatchDisconnect(w)
	client.Close()
	w.mustNotice(t, time.Now())
	server.UnwatchDisconnect(w)
}

func TestAcceptEndsWithClose(t *testing.T) {
	l := open(t, Options{})
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	l.Close()
	// fasthttp looks for this text in the error.
	if err := <-ended; !errors.Is(err, net.ErrClosed) || !strings.Contains(err.Error(), "use of closed network connection") {
		t.Errorf("Accept ends with %v", err)
	}
}

// TestWriteDeadline checks that a client that stops reading is disconnected, and that the deadline
// for one response does not affect a later response on the same connection.
func TestWriteDeadline(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	const d = 400 * time.Millisecond
	echo := func(text string) {
		t.Helper()
		if _, err := io.WriteString(server, text); err != nil {
			t.Fatalf("write: %v, want no error", err)
		}
		got := make([]byte, len(text))
		if _, err := io.ReadFull(client, got); err != nil || string(got) != text {
			t.Fatalf("read %q, %v; want %q", got, err, text)
		}
	}
	echo("no deadline")
	server.SetWriteTimeout(d)
	echo("first")
	time.Sleep(2 * d)
	echo("second, long after the deadline of the first")
	server.SetWriteTimeout(0)
	echo("third")

	start := time.Now()
	_, err := server.Write(make([]byte, 64<<20)) // the client does not read
	if elapsed := time.Since(start); err == nil || elapsed < d/2 || elapsed > 30*time.Second {
		t.Errorf("a stalled write ended with %v after %v", err, elapsed)
	}
	// A deadline set by the caller must not change.
	if err := server.SetWriteDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Write([]byte("x")); err == nil {
		t.Error("a write passed the caller's deadline")
	}
	if err := server.SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// TestWriteToSlowReader checks that a client that reads slowly but steadily receives all of a large
// response, even though writing it takes longer than the timeout for one write. If a busy machine
// interrupts the client for a large part of the timeout, the test tries again with a longer one.
func TestWriteToSlowReader(t *testing.T) {
	fastset.SkipIfShort(t, "a client that reads slowly")
	t.Parallel()
	for timeout := 3 * time.Second; ; timeout *= 2 {
		longestPause, err := writeToSlowReader(t, timeout)
		if err == nil {
			return
		}
		if longestPause < timeout/4 {
			t.Fatalf("the client paused for %v at most: %v", longestPause, err)
		}
	}
}

// writeToSlowReader writes with the given timeout for one write to a client that reads for longer
// than that. It returns how long the client paused at most.
func writeToSlowReader(t *testing.T, timeout time.Duration) (longestPause time.Duration, err error) {
	l := open(t, Options{})
	server, client := pair(t, l)
	if err := errors.Join(server.rawConn.(*net.TCPConn).SetWriteBuffer(64<<10), client.SetReadBuffer(64<<10)); err != nil {
		t.Fatal(err)
	}
	server.SetWriteTimeout(timeout)
	const size = 64 << 10
	pieces := 16 * int(timeout/time.Second)
	wrote := make(chan error, 1)
	go func() {
		n, err := server.Write(make([]byte, pieces*size))
		if err == nil && n != pieces*size {
			err = io.ErrShortWrite
		}
		if err != nil {
			server.Close()
		}
		wrote <- err
	}()
	begun := time.Now()
	if err := client.SetReadDeadline(begun.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	piece := make([]byte, size)
	for last := begun; time.Since(begun) < timeout+time.Second; time.Sleep(100 * time.Millisecond) {
		if _, err := io.ReadFull(client, piece); err != nil {
			return longestPause, fmt.Errorf("read after %v: %w", time.Since(begun), err)
		}
		longestPause, last = max(longestPause, time.Since(last)), time.Now()
	}
	if _, err := io.CopyN(io.Discard, client, 1); err != nil {
		return longestPause, fmt.Errorf("the answer ends after %v: %w", time.Since(begun), err)
	}
	go io.Copy(io.Discard, client) // reads the last bytes, so that the write ends
	return longestPause, <-wrote
}

func TestUnwrapConn(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	if UnwrapConn(server) != server || UnwrapConn(client) != nil || UnwrapConn(nil) != nil {
		t.Error("UnwrapConn is wrong about plain connections")
	}
	secure, other := tlsPair(t, l)
	if UnwrapConn(secure) == nil || UnwrapConn(other) != nil {
		t.Error("UnwrapConn is wrong about TLS")
	}
}

func TestListenTriesTheNextPorts(t *testing.T) {
	taken, err := Listen("127.0.0.1:0", PortOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr := taken.Addr().String()
	if ln, err := Listen(addr, PortOptions{Tries: 1}); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("one try: %v, %v", ln, err)
	}
	next, err := Listen(addr, PortOptions{Tries: 50})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if a, b := taken.Addr().(*net.TCPAddr).Port, next.Addr().(*net.TCPAddr).Port; b <= a || b >= a+50 {
		t.Errorf("port %d after %d", b, a)
	}
	for _, bad := range []string{"127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000"} {
		if ln, err := Listen(bad, PortOptions{Tries: 3}); err == nil {
			ln.Close()
			t.Errorf("%s was accepted", bad)
		}
	}
}

// TestServesHTTP checks that an HTTP server with keep-alive connections works on a Listener in the
// same way as on a plain net.Listener.
func TestServesHTTP(t *testing.T) {
	l := open(t, Options{})
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(bytes.ToUpper(body))
		}),
	}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(l) })
	client := &http.Client{Transport: &http.Transport{}}
	for range 50 {
		res, err := client.Post("http://"+l.Addr().String(), "text/plain", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); string(b) != "HELLO" {
			t.Fatalf("body = %q, %v; want HELLO", b, err)
		}
		res.Body.Close()
	}
	if n := l.OpenConnCount(); n != 1 {
		t.Errorf("%d connections for 50 requests", n)
	}
	client.CloseIdleConnections()
	server.Close()
	group.Wait()
}
