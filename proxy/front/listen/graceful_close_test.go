package listen

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// answerAll answers every line from clients of l with one word until l is closed. It serves all
// connections concurrently.
func answerAll(l *Listener, before func()) (ended chan struct{}) {
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			before()
			go answerLines(c.(*Conn))
		}
	}()
	return ended
}

func answerLines(c *Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		c.idle.markRequestComplete()
		_ = c.SetReadDeadline(time.Time{})
		_, _ = io.WriteString(c, strings.ToUpper(line))
		c.idle.markIdle()
	}
}

func ask(c net.Conn, word string) (string, error) {
	if _, err := io.WriteString(c, word+"\n"); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line), err
}

func dial(t *testing.T, addr net.Addr) net.Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr.String(), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestCloseGracefullyEmptiesTheQueue checks that connections in the accept queue are served, and
// that the port is closed afterwards.
func TestCloseGracefullyEmptiesTheQueue(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the accept queue cannot be told here")
	}
	l := open(t, Options{})
	ended := answerAll(l, func() { time.Sleep(2 * time.Millisecond) }) // slower than the clients connect
	var clients []net.Conn
	for range 50 {
		clients = append(clients, dial(t, l.Addr()))
	}
	answers := make(chan error, len(clients))
	left := make(chan struct{})
	go func() { l.CloseGracefully(); close(left) }()
	for i, c := range clients {
		go func() {
			got, err := ask(c, fmt.Sprint("word", i))
			if err == nil && got != fmt.Sprint("WORD", i) {
				err = errors.New(got)
			}
			answers <- err
		}()
	}
	for range clients {
		if err := <-answers; err != nil {
			t.Errorf("a connection of the queue: %v", err)
		}
	}
	<-left
	<-ended
	if c, err := net.DialTimeout("tcp", l.Addr().String(), 5*time.Second); err == nil {
		c.Close()
		t.Error("the port is still open")
	}
}

// TestCloseGracefullyServesReceivedRequests checks three keep-alive connections whose grace period
// is over. A connection that has a request in its socket must be served, a silent connection must
// be closed, and a busy connection must not be affected.
func TestCloseGracefullyServesReceivedRequests(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	silent, quiet := pair(t, l)
	working, busy := pair(t, l)
	working.idle.markRequestComplete()
	for _, c := range []*Conn{server, silent} {
		c.hadRequest.Store(true)
		c.idle.idleSince.Store(1) // the connection has been idle since the process started
	}
	if _, err := io.WriteString(client, "request"); err != nil {
		t.Fatal(err)
	}
	waitUnread(t, server)
	read := func(c *Conn) (string, error) {
		b := make([]byte, 100)
		n, err := c.Read(b)
		return string(b[:n]), err
	}
	type result struct {
		text string
		err  error
	}
	blocked, working1 := make(chan result, 1), make(chan result, 1)
	go func() { s, err := read(silent); blocked <- result{s, err} }()
	go func() { s, err := read(working); working1 <- result{s, err} }()
	time.Sleep(20 * time.Millisecond) // Both are probably blocked in their reads now. Either order is correct.
	l.CloseGracefully()
	if got, err := read(server); got != "request" || err != nil {
		t.Errorf("the request that had come: %q, %v", got, err)
	}
	if r := <-blocked; r.err != io.EOF {
		t.Errorf("the silent connection: %q, %v", r.text, r.err)
	}
	_ = quiet
	if _, err := io.WriteString(busy, "more"); err != nil {
		t.Fatal(err)
	}
	if r := <-working1; r.text != "more" || r.err != nil {
		t.Errorf("the connection that works: %q, %v", r.text, r.err)
	}
}

func waitUnread(t *testing.T, c *Conn) {
	t.Helper()
	in := make([]byte, 1)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if peeked(c, in) {
			return
		}
	}
	t.Fatal("nothing has come")
}

// TestCloseGracefullyWaitsForTheNextRequest checks that a client that has just received a response
// may send one more request.
func TestCloseGracefullyWaitsForTheNextRequest(t *testing.T) {
	l := open(t, Options{})
	ended := answerAll(l, func() {})
	c := dial(t, l.Addr())
	begun := time.Now()
	if got, err := ask(c, "first"); got != "FIRST" {
		t.Fatal(got, err)
	}
	l.CloseGracefully()
	<-ended
	// Once shutdownIdleGrace has passed, the connection may be closed.
	if got, err := ask(c, "second"); got != "SECOND" && time.Since(begun) < shutdownIdleGrace {
		t.Errorf("after CloseGracefully: %q, %v", got, err)
	}
	_ = c.SetReadDeadline(time.Now().Add(20 * shutdownIdleGrace))
	if _, err := c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection ends with %v", err)
	}
}

// TestGraceOfANewConnection checks that a client that has not sent a request yet gets more time
// than a client that has received a response.
func TestGraceOfANewConnection(t *testing.T) {
	for name, o := range map[string]Options{"public": {}, "makes room": {MakeRoom: true}} {
		t.Run(name, func(t *testing.T) {
			server, _ := pair(t, open(t, o))
			if got := server.idleGracePeriod(); got != firstRequestGrace {
				t.Errorf("before the first request: %v", got)
			}
			SetConnActive(server)
			SetConnIdle(server)
			if got := server.idleGracePeriod(); got != shutdownIdleGrace || got >= firstRequestGrace {
				t.Errorf("after it: %v", got)
			}
		})
	}
}

// TestSharedPort checks that a second listener on the port takes over while the first listener is
// closing, and that no request is lost.
func TestSharedPort(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("connections are spread by Linux's rules")
	}
	open := func(addr string) *Listener {
		ln, err := Listen(addr, PortOptions{ReusePort: true})
		if err != nil {
			t.Fatal(err)
		}
		return wrap(t, ln, Options{})
	}
	first := open("127.0.0.1:0")
	if ln, err := Listen(first.Addr().String(), PortOptions{}); err == nil {
		ln.Close()
		t.Error("the port was given to one who does not share")
	}
	second := open(first.Addr().String())
	firstEnded, secondEnded := answerAll(first, func() {}), answerAll(second, func() {})
	stop, failed := make(chan struct{}), make(chan error, 4)
	for range cap(failed) {
		go func() {
			for {
				select {
				case <-stop:
					failed <- nil
					return
				default:
				}
				c, err := net.DialTimeout("tcp", first.Addr().String(), 10*time.Second)
				if err != nil {
					failed <- err
					return
				}
				_, err = ask(c, "word")
				c.Close()
				if err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	time.Sleep(100 * time.Millisecond)
	first.CloseGracefully()
	<-firstEnded
	time.Sleep(300 * time.Millisecond)
	close(stop)
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Errorf("while one leaves: %v", err)
		}
	}
	second.Close()
	<-secondEnded
}

// TestInheritedSocketOutlivesListener checks that a service manager's socket outlives the listener created from it.
func TestInheritedSocketOutlivesListener(t *testing.T) {
	manager, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	f, err := manager.(*net.TCPListener).File()
	if err != nil {
		t.Skip(err)
	}
	ours, err := net.FileListener(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	l := wrap(t, ours, Options{KeepSocket: true})
	ended := answerAll(l, func() {})
	if got, err := ask(dial(t, l.Addr()), "one"); got != "ONE" {
		t.Fatal(got, err)
	}
	l.CloseGracefully()
	<-ended
	waiting := dial(t, manager.Addr()) // in the accept queue of the manager's socket
	if _, err := io.WriteString(waiting, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	next := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "next") })}
	go func() { _ = next.Serve(manager) }()
	defer next.Close()
	b, err := io.ReadAll(waiting)
	if err != nil || !strings.HasSuffix(string(b), "next") {
		t.Errorf("the next process answers %q, %v", b, err)
	}
}
