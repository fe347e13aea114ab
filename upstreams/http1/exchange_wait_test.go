package http1

import (
	"crypto/tls"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// readWaiting is like readAll, but calls WaitReadable before each Read. Each Read must then return
// without waiting.
func readWaiting(x *Exchange) (string, error) {
	var b strings.Builder
	p := make([]byte, 1500)
	for {
		x.WaitReadable(inThirtySeconds())
		n, err := x.Read(p, inThirtySeconds())
		b.Write(p[:n])
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return b.String(), err
		}
	}
}

// TestWait checks that an exchange that is waiting has no buffer, and that it waits as long as
// requested. Read then returns the bytes that have arrived.
func TestWait(t *testing.T) {
	if !canPeek {
		t.Skip("Wait needs reads of the bare socket")
	}
	checkLeaks(t)
	next := make(chan string)
	defer close(next)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		for piece := range next {
			p.Send(piece)
		}
	})
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	if err := x.Send(post("q")); err != nil {
		t.Fatal(err)
	}
	waitsInVain := func(wait func(until time.Time)) {
		t.Helper()
		begin := time.Now()
		wait(begin.Add(30 * time.Millisecond))
		if took := time.Since(begin); took < 30*time.Millisecond {
			t.Errorf("back after %v, before the time", took)
		}
		if x.reply.received.b != nil || x.reply.received.pooledBuf != nil {
			t.Errorf("a buffer of %d bytes is held", len(x.reply.received.b))
		}
	}
	waitsInVain(func(until time.Time) {
		if err := x.Await(until); !errors.Is(err, ErrNoBytesYet) {
			t.Errorf("Await = %v, want %v", err, ErrNoBytesYet)
		}
	})
	next <- "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	if err := x.Await(inThirtySeconds()); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	past := time.Now()
	for _, piece := range []string{"a", "bc", "def"} {
		waitsInVain(func(until time.Time) {
			if x.WaitReadable(until) {
				t.Error("something is said to have come")
			}
		})
		next <- string(rune('0'+len(piece))) + "\r\n" + piece + "\r\n"
		x.WaitReadable(inThirtySeconds())
		x.WaitReadable(inThirtySeconds()) // returns immediately at the end of the body
		if n, err := x.Read(p, past); string(p[:n]) != piece || err != nil {
			t.Fatalf("read %q, %v; want %q without waiting", p[:n], err, piece)
		}
		if got := string(x.Header("Content-Type")); got != "text/event-stream" {
			t.Errorf("the head says %q after a wait", got)
		}
	}
	next <- "0\r\n\r\n"
	x.WaitReadable(inThirtySeconds())
	if n, err := x.Read(p, past); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %d, %v", n, err)
	}
	x.WaitReadable(time.Time{}) // would block forever if it missed the end
	if !x.isReusable() {
		t.Error("the connection is not fit for another exchange")
	}
}

// TestWaitTLS checks that WaitReadable returns immediately on a TLS connection, on which only a
// read can decrypt a record. Instead, Read waits.
func TestWaitTLS(t *testing.T) {
	checkLeaks(t)
	s := rawserver.ServeTLS(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n")
		p.ReadToEnd()
	})
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	if body, err := readWaiting(x); body != "abc" || err != nil {
		t.Errorf("body = %q, %v; want abc", body, err)
	}
}

// TestFresh checks that bytes that arrived with the head are not fresh. Bytes fetched by a Read, or
// by the WaitReadable before it, are fresh even if the line end after the previous chunk had
// already arrived.
func TestFresh(t *testing.T) {
	checkLeaks(t)
	next := make(chan string)
	defer close(next)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		for piece := range next {
			p.Send(piece)
		}
	})
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	read := func(want string, fresh bool) {
		t.Helper()
		var p [64]byte
		n, err := x.Read(p[:], inThirtySeconds())
		if string(p[:n]) != want || err != nil || x.IsReadFresh() != fresh {
			t.Errorf("read %q, %v, fresh %t", p[:n], err, x.IsReadFresh())
		}
	}
	read("abc", false)
	for _, wait := range []bool{false, true, true, false} {
		next <- "3\r\ndef\r\n"
		if wait {
			x.WaitReadable(inThirtySeconds())
		}
		read("def", true)
	}
	for range 2 {
		next <- "3\r\nghi\r\n1;x\r\nj\r\n2\r\nk"
		x.WaitReadable(inThirtySeconds())
		if p := x.TakeBuffered(); string(p) != "ghijk" || !x.IsReadFresh() {
			t.Errorf("took %q, fresh %t", p, x.IsReadFresh())
		}
		if p := x.TakeBuffered(); p != nil {
			t.Errorf("took %q, too", p)
		}
		next <- "l\r\n"
		read("l", true)
	}
}

// TestAnswerWatch checks that AnswerWatch records the body of a 200 response, but no head, error
// body or comment.
func TestAnswerWatch(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  bool
	}{
		"an answer":         {rawserver.SizedResponse("abc"), true},
		"an empty answer":   {rawserver.SizedResponse(""), false},
		"a comment":         {rawserver.SizedResponse(": ping\n\n"), false},
		"an error":          {"HTTP/1.1 500 Oh\r\nContent-Length: 3\r\n\r\nabc", false},
		"another good code": {"HTTP/1.1 202 Accepted\r\nContent-Length: 3\r\n\r\nabc", false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
				for {
					if _, _, ok := p.ReadRequest(); !ok {
						return
					}
					p.Send(c.reply)
				}
			}).URL())
			var w AnswerWatch
			for range 2 {
				before := w.ArrivalNumber()
				x := &Exchange{}
				x.Begin(tr, &w)
				if err := errors.Join(x.Send(post("")), x.Await(inThirtySeconds())); err != nil {
					t.Fatal(err)
				}
				if _, err := readAll(x); err != nil {
					t.Fatal(err)
				}
				x.Close()
				if got := w.ArrivalNumber() != before; got != c.want {
					t.Errorf("an answer was seen: %v", got)
				}
			}
		})
	}
}

// TestReadsBySocket checks that Read uses package socket for bytes that it reads directly from the
// connection, even on a TLS connection.
func TestReadsBySocket(t *testing.T) {
	checkLeaks(t)
	for _, s := range []*rawserver.Server{rawserver.Serve(t, rawserver.EchoRequests), rawserver.ServeTLS(t, rawserver.EchoRequests)} {
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, strings.Repeat("long ", 20_000))
		nc := tr.idle.conns[0].nc
		if secured, ok := nc.(*tls.Conn); ok {
			nc = secured.NetConn()
		}
		if _, ok := nc.(*plainConn); !ok {
			t.Errorf("%s is read by a %T", s.URL(), nc)
		}
	}
}
