package listen

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// TestDetachOnClose checks that Close on a detached connection runs the connection's functions one
// after the other instead of closing it. The connection must close once no function is left.
func TestDetachOnClose(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	ran, running := 0, false
	var then func()
	then = func() {
		if running {
			t.Error("a function runs within another one")
		}
		running = true
		if ran++; ran < 3 { // simulates a server that serves another stream
			server.DetachOnClose(then)
			if err := server.Close(); err != nil {
				t.Error(err)
			}
		}
		running = false
	}
	server.DetachOnClose(then)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if ran != 3 || l.OpenConnCount() != 1 {
		t.Fatalf("%d functions ran and %d connections are open, want 3 and 1", ran, l.OpenConnCount())
	}
	if _, err := server.Write([]byte("bye")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if b, err := io.ReadAll(client); string(b) != "bye" || err != nil || l.OpenConnCount() != 0 {
		t.Errorf("read %q, %v, %d open; want bye and none open", b, err, l.OpenConnCount())
	}
}

// TestDetachOnCloseByTwoGoroutines checks a connection that a function serves again and that the
// server then hands to another goroutine, as an upgrade does. Whichever goroutine is faster, the
// function set by the second goroutine runs once, and only when the connection is closed.
func TestDetachOnCloseByTwoGoroutines(t *testing.T) {
	for _, closedEarly := range []bool{false, true} {
		l := open(t, Options{})
		server, _ := pair(t, l)
		upgraded, ran := make(chan struct{}), 0
		upgrade := func() {
			server.DetachOnClose(func() { ran++ })
			if closedEarly {
				_ = server.Close()
			}
			close(upgraded)
		}
		server.DetachOnClose(func() {
			go upgrade()
			<-upgraded
			if ran != 0 {
				t.Error("a function runs within another one")
			}
		})
		_ = server.Close()
		if !closedEarly {
			if ran != 0 {
				t.Error("a function runs before the connection is closed")
			}
			_ = server.Close()
		}
		if ran != 1 || l.OpenConnCount() != 1 {
			t.Errorf("closed early %v: the function ran %d times and %d connections are open, want 1 and 1", closedEarly, ran, l.OpenConnCount())
		}
	}
}

// TestDetachment checks which function runs when. In particular, a function that is set after
// takeWaiting found none must not wait for the function that has just returned.
func TestDetachment(t *testing.T) {
	var (
		d   detachment
		ran []string
	)
	closes := func(name string) (then *func(), detached bool) {
		run := func() { ran = append(ran, name) }
		d.onClose.Store(&run)
		return d.takeOnClose()
	}
	first, _ := closes("first")
	if then, detached := closes("second"); then != nil || !detached {
		t.Fatalf("a function within another one runs at once: %v, detached %v", then != nil, detached)
	}
	if _, detached := d.takeOnClose(); detached {
		t.Fatal("a Close without a function does not close the connection")
	}
	(*first)()
	(*d.takeWaiting())()
	if then := d.takeWaiting(); then != nil {
		t.Fatal("a function runs twice")
	}
	third, _ := closes("third")
	(*third)()
	if got := strings.Join(ran, " "); got != "first second third" {
		t.Errorf("ran %s, want first second third", got)
	}
}

// TestHijackOfClosedConn checks that a server runs a hijack handler, which has work to finish, even if
// the connection is closed before.
func TestHijackOfClosedConn(t *testing.T) {
	l := open(t, Options{})
	server, client := pair(t, l)
	ran := false
	done := make(chan struct{})
	s := &fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.HijackSetNoResponse(true)
		ctx.Hijack(func(net.Conn) {
			ran = true
			close(done)
		})
		_ = server.Close()
	}}
	if _, err := io.WriteString(client, "GET / HTTP/1.0\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := s.ServeConn(server); err != nil {
		t.Error(err)
	} else {
		<-done
	}
	if !ran {
		t.Error("the hijack handler did not run")
	}
}

// TestReadEndsAtTheRequest checks that a read returns no bytes after the end of a request, and that
// later reads return these bytes. This must be true for buffers of any size.
func TestReadEndsAtTheRequest(t *testing.T) {
	const sized, chunks, none = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
		"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "\r\nGET / HTTP/1.1\r\n\r\n"
	for _, room := range []int{1, 7, 64, 4096} {
		server, client := pair(t, open(t, Options{}))
		SetConnIdle(server)
		if _, err := client.Write([]byte(sized + chunks + none + sized + "tail")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, room)
		for _, request := range []string{sized, chunks, none, sized} {
			got := ""
			for got != request {
				n, err := server.Read(b)
				if got += string(b[:n]); err != nil || !strings.HasPrefix(request, got) {
					t.Fatalf("into %d bytes: read %q, %v; want %q", room, got, err, request)
				}
			}
		}
		got := ""
		for got != "tail" {
			n, err := server.Read(b)
			if got += string(b[:n]); err != nil || !strings.HasPrefix("tail", got) {
				t.Fatalf("into %d bytes: read %q, %v after the requests; want tail", room, got, err)
			}
		}
	}
}

// TestResume checks that the idle time replaces the first read deadline after ResumeHTTP, and that
// the second deadline is used unchanged.
func TestResume(t *testing.T) {
	server, _ := pair(t, open(t, Options{}))
	var b [1]byte
	server.ResumeHTTP(time.Hour)
	if err := server.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := server.Read(b[:])
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("the deadline was taken: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := server.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("read without a byte")
	}
}

// TestReadDeadlineMoves checks what happens if the read deadline changes. A later deadline must not
// change the socket's deadline. The socket's earlier deadline must not end the read, even if the
// read deadline was cleared. An earlier deadline must end a blocked read.
func TestReadDeadlineMoves(t *testing.T) {
	server, client := pair(t, open(t, Options{}))
	read := make(chan error, 1)
	begin := func() {
		var b [1]byte
		_, err := server.Read(b[:])
		read <- err
	}
	for _, later := range []time.Time{time.Now().Add(time.Hour), {}} {
		_ = server.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		_ = server.SetReadDeadline(later)
		go begin()
		select {
		case err := <-read:
			t.Fatalf("a read with the deadline %v ends: %v; want it to wait", later, err)
		case <-time.After(100 * time.Millisecond):
		}
		if _, err := client.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := <-read; err != nil {
			t.Fatal(err)
		}
	}
	go begin()
	_ = server.SetReadDeadline(time.Now().Add(time.Hour))
	_ = server.SetReadDeadline(time.Now())
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}
