package http1

import (
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

func TestReplies(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\n"
	long := strings.Repeat("x", 70<<10)
	type reply struct {
		name, reply string
		hold        bool // the engine keeps the connection open after the response
		method      string

		status int
		body   string
		until  bool // the body ends when the engine closes the connection
		kind   FailureKind
		reason string
		keep   bool // the connection is reused for the next exchange
	}
	tests := []reply{
		{name: "sized", reply: rawserver.SizedResponse("hello"), hold: true, status: 200, body: "hello", keep: true},
		{name: "sized, large", reply: rawserver.SizedResponse(long), hold: true, status: 200, body: long, keep: true},
		{name: "chunked", reply: ok + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n002;x=y\r\nde\r\n0\r\n\r\n", hold: true, status: 200, body: "abcde", keep: true},
		{name: "chunked, trailers", reply: ok + "Transfer-Encoding: Chunked\r\n\r\n1\r\na\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", hold: true, status: 200, body: "a", keep: true},
		{name: "chunked, large", reply: ok + "Transfer-Encoding: chunked\r\n\r\n11800\r\n" + long + "\r\n0\r\n\r\n", hold: true, status: 200, body: long, keep: true},
		{name: "empty", reply: ok + "Content-Length: 0\r\n\r\n", hold: true, status: 200, keep: true},
		{name: "error status", reply: "HTTP/1.1 503 Loading model\r\nContent-Length: 2\r\nRetry-After: 3\r\n\r\nno", hold: true, status: 503, body: "no", keep: true},
		{name: "no reason phrase", reply: "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok", keep: true},
		{name: "bare LF", reply: "HTTP/1.1 200 OK\nContent-Length: 2\n\nok", hold: true, status: 200, body: "ok", keep: true},
		{name: "same length twice", reply: ok + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok", keep: true},
		{name: "identity", reply: ok + "Content-Encoding: identity\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok", keep: true},
		{name: "204", reply: "HTTP/1.1 204 No Content\r\n\r\n", hold: true, status: 204, keep: true},
		{name: "304 with a length", reply: "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n", hold: true, status: 304, keep: true},
		{name: "redirect", reply: "HTTP/1.1 307 Away\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", hold: true, status: 307, keep: true},
		{name: "HEAD", method: "HEAD", reply: ok + "Content-Length: 10\r\n\r\n", hold: true, status: 200, keep: true},
		{name: "8 interim replies", reply: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n", 7) + "HTTP/1.1 100 Continue\r\n\r\n" + rawserver.SizedResponse("ok"), hold: true, status: 200, body: "ok", keep: true},
		{name: "9 interim replies", reply: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 9) + rawserver.SizedResponse("ok"), hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "101", reply: "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", hold: true, status: 101},
		{name: "head of 20 KiB", reply: ok + "X-Long: " + strings.Repeat("y", 20<<10) + "\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok", keep: true},

		{name: "Connection: close", reply: ok + "Connection: close\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok"},
		{name: "Connection twice", reply: ok + "Connection: keep-alive\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok"},
		{name: "Keep-Alive: timeout=0", reply: ok + "Keep-Alive: timeout=0\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok"},
		{name: "HTTP/1.0", reply: "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok"},
		{name: "HTTP/1.0 keep-alive", reply: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 200, body: "ok", keep: true},
		{name: "HTTP/1.0 chunked", reply: "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", hold: true, status: 200, body: "ok"},
		{name: "until close", reply: ok + "\r\nall there is", status: 200, body: "all there is", until: true},
		{name: "surplus after the body", reply: rawserver.SizedResponse("ok") + "HTTP/1.1 200 OK\r\n", hold: true, status: 200, body: "ok"},
		{name: "forged second reply", reply: rawserver.SizedResponse("ok") + rawserver.SizedResponse("forged"), hold: true, status: 200, body: "ok"},
		{name: "surplus after chunks", reply: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + rawserver.SizedResponse("forged"), hold: true, status: 200},
		{name: "body after 204", reply: "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\nok", hold: true, status: 204},
		{name: "body after HEAD", method: "HEAD", reply: rawserver.SizedResponse("ok"), hold: true, status: 200},

		{name: "head cut", reply: "HTTP/1.1 200 OK\r\nContent-Le", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "status line cut", reply: "HT", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "interim only", reply: "HTTP/1.1 100 Continue\r\n\r\n", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "nothing", reply: "", kind: KindUnreachable, reason: ReasonEOF},
		{name: "HTTP/0.9", reply: "hello, world", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "garbage", reply: "\x16\x03\x01\x02\x00", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "HTTP/2", reply: "HTTP/2 200\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "HTTP/1.2", reply: "HTTP/1.2 200 OK\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "status 999", reply: "HTTP/1.1 999 No\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "status 099", reply: "HTTP/1.1 099 No\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "status of four digits", reply: "HTTP/1.1 2000 No\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "status not a number", reply: "HTTP/1.1 2x0 No\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "NUL", reply: ok + "X: a\x00b\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "bare CR", reply: ok + "X: a\rb\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "folded line", reply: ok + "X: a\r\n b\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "blank before colon", reply: ok + "Content-Length : 2\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "no colon", reply: ok + "Content-Length\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "no name", reply: ok + ": x\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "lengths differ", reply: ok + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "lengths in a list", reply: ok + "Content-Length: 2, 2\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "signed length", reply: ok + "Content-Length: +2\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "empty length", reply: ok + "Content-Length:\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "huge length", reply: ok + "Content-Length: 9223372036854775808\r\n\r\nok", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "length and chunked", reply: ok + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "chunked twice", reply: ok + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "gzip, chunked", reply: ok + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "transfer identity", reply: ok + "Transfer-Encoding: identity\r\n\r\n", hold: true, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "gzip", reply: ok + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b", hold: true, kind: KindBadResponse, reason: ReasonEncoding},
		{name: "head of 300 KiB", reply: ok + "X: " + strings.Repeat("y", 300<<10), hold: true, kind: KindBadResponse, reason: ReasonTooLarge},
		{name: "300 header lines", reply: ok + strings.Repeat("X: y\r\n", 300) + "\r\n", hold: true, kind: KindBadResponse, reason: ReasonTooLarge},
		{name: "endless status line", reply: "HTTP/1.1 200 " + strings.Repeat("y", 70<<10), hold: true, kind: KindBadResponse, reason: ReasonTooLarge},

		{name: "length too long", reply: ok + "Content-Length: 10\r\n\r\nhalf", status: 200, body: "half", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "chunk cut", reply: ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nha", status: 200, body: "ha", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "last chunk missing", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nha\r\n", status: 200, body: "ha", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "last line missing", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nha\r\n0\r\n", status: 200, body: "ha", kind: KindBadResponse, reason: ReasonTruncated},
		{name: "bad chunk size", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nha\r\nzz\r\n", hold: true, status: 200, body: "ha", kind: KindBadResponse, reason: ReasonInvalid},
		{name: "empty chunk size", reply: ok + "Transfer-Encoding: chunked\r\n\r\n\r\nha\r\n", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "negative chunk size", reply: ok + "Transfer-Encoding: chunked\r\n\r\n-1\r\nha\r\n", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "chunk size 0x", reply: ok + "Transfer-Encoding: chunked\r\n\r\n0x2\r\nha\r\n", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "huge chunk size", reply: ok + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nha", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "17 digits", reply: ok + "Transfer-Encoding: chunked\r\n\r\n00000000000000002\r\nha", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "chunk without CRLF", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nhaha\r\n", hold: true, status: 200, body: "ha", kind: KindBadResponse, reason: ReasonInvalid},
		{name: "chunk line with LF", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\nha\r\n0\r\n\r\n", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "last chunk line with CR alone", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2\r\nha\r\n0\r\r\n\r\n", hold: true, status: 200, body: "ha", kind: KindBadResponse, reason: ReasonInvalid},
		{name: "control character in an extension", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2;a=\x01\r\nha\r\n0\r\n\r\n", hold: true, status: 200, kind: KindBadResponse, reason: ReasonInvalid},
		{name: "endless extension", reply: ok + "Transfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("x", 2<<10), hold: true, status: 200, kind: KindBadResponse, reason: ReasonTooLarge},
		{name: "endless trailers", reply: ok + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: y\r\n", 3<<10), hold: true, status: 200, kind: KindBadResponse, reason: ReasonTooLarge},
	}
	run := func(tt *reply, read func(*Exchange) (string, error)) func(t *testing.T) {
		return func(t *testing.T) {
			checkLeaks(t)
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				if p.N > 0 {
					rawserver.EchoRequests(p)
					return
				}
				if _, _, ok := p.ReadRequest(); !ok {
					return
				}
				p.Send(tt.reply)
				if tt.hold {
					rawserver.EchoRequests(p)
				}
			})
			tr := transportTo(t, s.URL())
			r := post("question")
			if tt.method != "" {
				r.Method, r.Body = tt.method, nil
			}
			x := tr.NewExchange()
			defer x.Close()
			if err := x.Send(r); err != nil {
				t.Fatal(err)
			}
			err := x.Await(inThirtySeconds())
			if tt.status == 0 {
				f := wantFailure(t, err, tt.kind, tt.reason)
				if !f.Sent {
					t.Error("Sent is false although the request was sent")
				}
				if again := x.Await(inThirtySeconds()); again != err {
					t.Errorf("Await again: %v, want the same failure", again)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				body, err := read(x)
				if x.Status() != tt.status || body != tt.body {
					t.Fatalf("status %d, %d bytes of body %.40q; want %d, %d bytes", x.Status(), len(body), body, tt.status, len(tt.body))
				}
				if x.IsFramed() == tt.until {
					t.Errorf("Framed %v, want %v", x.IsFramed(), !tt.until)
				}
				if tt.kind != 0 {
					wantFailure(t, err, tt.kind, tt.reason)
				} else if err != nil {
					t.Fatal(err)
				}
			}
			x.Close()
			x.Close()
			if next := mustEcho(t, tr, "next"); next.delivery.reusedConn != tt.keep {
				t.Errorf("the connection was reused: %v, want %v", next.delivery.reusedConn, tt.keep)
			}
		}
	}
	for i := range tests {
		t.Run(tests[i].name, run(&tests[i], readAll))
		t.Run(tests[i].name+", waited for", run(&tests[i], readWaiting))
	}
}

func TestHeaders(t *testing.T) {
	checkLeaks(t)
	// A head that fits in the buffer, fills more than half of it, or needs a larger buffer.
	for _, pad := range []int{0, 3 << 10, 30 << 10} {
		body := strings.Repeat("0123456789", 10000) // larger than the buffer space left by any head
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			_, _, _ = p.ReadRequest()
			p.Send("HTTP/1.1 429 No\r\nX-Pad: " + strings.Repeat("p", pad) + "\r\ncontent-TYPE:  text/event-stream \t\r\nContent-Type: text/plain\r\n" +
				"RETRY-AFTER: 7\r\nx-request-id: r-1\r\nContent-Disposition: " + strings.Repeat("d", 2<<10) + "\r\nSet-Cookie: secret\r\nContent-Length: 100000\r\n\r\n")
			p.Send(body)
			p.ReadToEnd()
		})
		tr := transportTo(t, s.URL())
		x := tr.NewExchange()
		if x.Status() != 0 || x.Header("Content-Type") != nil || x.ContentLength() != -1 || x.IsFramed() {
			t.Error("there is a reply before Await")
		}
		if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
			t.Fatal(err)
		}
		contentType := x.Header("CONTENT-type")
		got, err := readAll(x)
		if err != nil || got != body {
			t.Fatalf("%d bytes, error %v", len(got), err)
		}
		for name, want := range map[string]string{"Retry-After": "7", "X-Request-ID": "r-1", "Content-Length": "100000", "Content-Disposition": "", "Set-Cookie": "", "X-Pad": ""} {
			if h := x.Header(name); string(h) != want || want == "" && h != nil {
				t.Errorf("pad %d: %s is %.20q, want %q", pad, name, h, want)
			}
		}
		if string(contentType) != "text/event-stream" {
			t.Errorf("pad %d: Content-Type is %q after the body was read", pad, contentType)
		}
		if x.Status() != 429 || x.ContentLength() != 100000 {
			t.Errorf("status %d, length %d", x.Status(), x.ContentLength())
		}
		if len(x.reply.received.b) != 0 {
			t.Errorf("pad %d: the exchange holds a buffer of %d bytes, want none once the head is read", pad, len(x.reply.received.b))
		}
		x.Close()
		if x.Header("Retry-After") != nil {
			t.Error("a header survives Close")
		}
	}
}

// TestResume delivers a response byte by byte, and checks that an exchange continues after waits
// that time out.
func TestResume(t *testing.T) {
	const reply = "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6;x\r\n world\r\n0\r\nT: x\r\n\r\n"
	run := func(t *testing.T, serve func(*testing.T, func(*rawserver.Peer)) *rawserver.Server) {
		checkLeaks(t)
		step := make(chan bool)
		s := serve(t, func(p *rawserver.Peer) {
			_, _, _ = p.ReadRequest()
			for i := range len(reply) {
				if !<-step {
					return
				}
				p.Send(reply[i : i+1])
			}
			p.ReadToEnd()
		})
		defer close(step)
		tr := transportTo(t, s.URL())
		x := tr.NewExchange()
		defer x.Close()
		if err := x.Send(post("q")); err != nil {
			t.Fatal(err)
		}
		sent, waits := 0, 0
		next := func() { // delivers the next byte after a wait that times out
			waits++
			if sent < len(reply) {
				step <- true
				sent++
			}
		}
		for {
			err := x.Await(time.Now().Add(2 * time.Millisecond))
			if err == nil {
				break
			}
			if err != ErrNoBytesYet {
				t.Fatal(err)
			}
			next()
		}
		var body strings.Builder
		for p := make([]byte, 3); ; {
			n, err := x.Read(p, time.Now().Add(2*time.Millisecond))
			body.Write(p[:n])
			if err == io.EOF {
				break
			}
			if err == ErrNoBytesYet {
				next()
			} else if err != nil {
				t.Fatal(err)
			}
		}
		if body.String() != "hello world" || waits < len(reply)/2 {
			t.Fatalf("body %q after %d waits", body.String(), waits)
		}
		if _, err := x.Read(make([]byte, 1), inThirtySeconds()); err != io.EOF {
			t.Errorf("after the end: %v, want io.EOF", err)
		}
		if !x.isReusable() {
			t.Error("the connection is not fit for another exchange")
		}
	}
	t.Run("plain", func(t *testing.T) { run(t, rawserver.Serve) })
	t.Run("TLS", func(t *testing.T) { run(t, rawserver.ServeTLS) })
}

// TestReadReturnsWhatHasCome checks that a single Read returns all small chunks that have arrived,
// and that Read does not wait if at least one chunk has arrived.
func TestReadReturnsWhatHasCome(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3\r\ncde\r\n1\r\nf\r\n4\r\ngh")
		p.ReadToEnd()
	})
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, err := x.Read(p, inThirtySeconds()); string(p[:n]) != "abcdefgh" || err != nil {
		t.Fatalf("Read = %q, %v; want abcdefgh", p[:n], err)
	}
	begin := time.Now()
	if n, err := x.Read(p, begin.Add(30*time.Millisecond)); n != 0 || err != ErrNoBytesYet {
		t.Fatalf("Read = %q, %v; want nothing and %v", p[:n], err, ErrNoBytesYet)
	}
	if took := time.Since(begin); took < 30*time.Millisecond {
		t.Errorf("ErrNoBytesYet after %v, before the time", took)
	}
	if n, err := x.Read(p, begin); n != 0 || err != ErrNoBytesYet {
		t.Fatalf("with a time in the past: %q, %v", p[:n], err)
	}
	if n, err := x.Read(nil, begin); n != 0 || err != nil {
		t.Fatalf("into nothing: %d, %v", n, err)
	}
}

// TestDeadlines checks that a wait lasts as long as requested, regardless of the socket's previous
// deadline.
func TestDeadlines(t *testing.T) {
	checkLeaks(t)
	release := make(chan bool, 2)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		for {
			if _, _, ok := p.ReadRequest(); !ok {
				return
			}
			<-release
			p.Send(rawserver.SizedResponse("ok"))
		}
	})
	tr := transportTo(t, s.URL())
	for round := range 2 {
		x := tr.NewExchange()
		if err := x.Send(post("q")); err != nil {
			t.Fatal(err)
		}
		for _, wait := range []time.Duration{40, 5, 60} { // each wait needs a different deadline
			begin := time.Now()
			if err := x.Await(begin.Add(wait * time.Millisecond)); err != ErrNoBytesYet {
				t.Fatal(err)
			}
			if took := time.Since(begin); took < wait*time.Millisecond || took > 20*time.Second {
				t.Errorf("round %d: a wait of %v ms took %v", round, int(wait), took)
			}
		}
		release <- true
		// No deadline, after a deadline that has expired.
		if err := x.Await(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if body, err := readAll(x); body != "ok" || err != nil {
			t.Fatal(body, err)
		}
		armed := x.delivery.c.readDeadline
		x.Close()
		time.Sleep(time.Millisecond)
		if round == 1 && !armed.IsZero() && s.AcceptedCount() != 1 {
			t.Error("the connection was not reused")
		}
	}
}

// TestNoDeadlineMoves checks that consecutive exchanges with the same limits do not change the
// socket's deadlines.
func TestNoDeadlineMoves(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, rawserver.EchoRequests)
	tr := transportTo(t, s.URL())
	mustEcho(t, tr, "q")
	read, write := tr.idle.conns[0].readDeadline, tr.idle.conns[0].writeDeadline
	for range 5 {
		mustEcho(t, tr, "q")
	}
	if c := tr.idle.conns[0]; !c.readDeadline.Equal(read) || !c.writeDeadline.Equal(write) {
		t.Errorf("deadlines moved: read by %v, write by %v", c.readDeadline.Sub(read), c.writeDeadline.Sub(write))
	}
}

func TestReset(t *testing.T) {
	// A reset is distinguished from a regular close, both within the head and within the body.
	for _, tt := range []struct {
		name, reply string
		kind        FailureKind
	}{
		{"before the reply", "", KindUnreachable},
		{"in the head", "HTTP/1.1 200 OK\r\nConte", KindBadResponse},
		{"in a sized body", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", KindBadResponse},
		{"in a body until close", "HTTP/1.1 200 OK\r\n\r\nabc", KindBadResponse},
		{"in a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", KindBadResponse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			taken := make(chan bool)
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				_, _, _ = p.ReadRequest()
				p.Send(tt.reply)
				p.ResetOnClose()
				<-taken // a reset would discard bytes that were not read yet
			})
			defer close(taken)
			tr := transportTo(t, s.URL())
			x := tr.NewExchange()
			defer x.Close()
			if err := x.Send(post("q")); err != nil {
				t.Fatal(err)
			}
			err, body := x.Await(time.Now().Add(50*time.Millisecond)), ""
			if err == nil {
				p := make([]byte, 100)
				n, rerr := x.Read(p, inThirtySeconds())
				body, err = string(p[:n]), rerr
				taken <- true
				if err == nil {
					_, err = x.Read(p, inThirtySeconds())
				}
			} else {
				taken <- true
				err = x.Await(inThirtySeconds())
			}
			f := wantFailure(t, err, tt.kind, ReasonReset)
			if !f.Sent || strings.Contains(tt.name, "body") && body != "abc" {
				t.Errorf("sent %v, body %q", f.Sent, body)
			}
		})
	}
}

func TestTLS(t *testing.T) {
	t.Run("exchanges share a connection", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.ServeTLS(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		for i := range 5 {
			if x := mustEcho(t, tr, strings.Repeat("a", i*40000)); x.delivery.reusedConn != (i > 0) {
				t.Errorf("exchange %d: reused %v", i, x.delivery.reusedConn)
			}
		}
	})
	t.Run("surplus within TLS is not the next reply", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.ServeTLS(t, func(p *rawserver.Peer) {
			if p.N > 0 {
				rawserver.EchoRequests(p)
				return
			}
			_, _, _ = p.ReadRequest()
			// One record.
			p.Send(rawserver.SizedResponse(strings.Repeat("a", 8000)) + rawserver.SizedResponse("forged"))
			rawserver.EchoRequests(p)
		})
		tr := transportTo(t, s.URL())
		x := tr.NewExchange()
		if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
			t.Fatal(err)
		}
		got, p := 0, make([]byte, 8000)
		for got < 8000 {
			n, err := x.Read(p[got:], inThirtySeconds())
			if err != nil {
				t.Fatal(err)
			}
			got += n
		}
		x.Close()
		if mustEcho(t, tr, "next").delivery.reusedConn {
			t.Error("a connection with surplus was used again")
		}
	})
	t.Run("cut within a record", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.ServeTLS(t, func(p *rawserver.Peer) {
			_, _, _ = p.ReadRequest()
			p.Send("HTTP/1.1 200 OK\r\n\r\nhalf")
			_, _ = p.TCP.Write([]byte{23, 3, 3, 0, 200, 1}) // an incomplete TLS record
		})
		_, body, _, err := roundTrip(transportTo(t, s.URL()), post("q"))
		wantFailure(t, err, KindBadResponse, ReasonTruncated)
		if body != "half" {
			t.Errorf("body = %q, want half", body)
		}
	})
	t.Run("an unknown authority", func(t *testing.T) {
		checkLeaks(t)
		// Load the certificates now, because on a busy machine this can take longer than the
		// connect timeout.
		if _, err := x509.SystemCertPool(); err != nil {
			t.Fatal(err)
		}
		s := rawserver.ServeTLS(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL(), func(o *TransportOptions) { o.TLS = nil })
		_, _, _, err := roundTrip(tr, post("q"))
		if f := wantFailure(t, err, KindUnreachable, ReasonTLS); f.Sent {
			t.Error("Sent is true although there was no connection")
		}
	})
	t.Run("an unknown authority beside an address without a listener", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.ServeTLS(t, rawserver.EchoRequests)
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		here, dead := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("127.99.99.99")
		for _, addrs := range [][]netip.Addr{{here, dead}, {dead, here}} {
			tr := transportTo(t, "https://engine.internal:"+port, func(o *TransportOptions) { o.TLS = nil })
			tr.dns.lookup = (&resolver{ips: addrs}).lookup
			_, _, _, err := roundTrip(tr, post("q"))
			if f := wantFailure(t, err, KindUnreachable, ReasonTLS); !strings.Contains(f.Detail(), "certificate") {
				t.Errorf("%v: the detail is %q", addrs, f.Detail())
			}
		}
	})
	t.Run("a handshake that never ends", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) { p.ReadToEnd() })
		tr := transportTo(t, "https://"+s.Listener.Addr().String())
		r := post("q")
		r.ConnectTimeout = 50 * time.Millisecond
		_, _, _, err := roundTrip(tr, r)
		if f := wantFailure(t, err, KindTimeout, ReasonTimeout); f.Clock != TimeoutConnect || f.Sent {
			t.Errorf("clock %q, sent %v", f.Clock, f.Sent)
		}
	})
}

func TestDialFailures(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		checkLeaks(t)
		tr := transportTo(t, "http://"+deadAddress(t))
		begin := time.Now()
		_, _, x, err := roundTrip(tr, post("q"))
		if f := wantFailure(t, err, KindUnreachable, ReasonConnect); f.Sent || x.SendCount() != 0 {
			t.Errorf("sent %v, %d sends", f.Sent, x.SendCount())
		}
		if time.Since(begin) > 10*time.Second {
			t.Error("a refused connection was waited for")
		}
	})
	t.Run("every address is tried", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		tr.dns.fixedAddrs = []string{deadAddress(t), s.Listener.Addr().String()}
		mustEcho(t, tr, "q")
	})
	t.Run("closed at once", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) { p.ResetOnClose() })
		_, _, x, err := roundTrip(transportTo(t, s.URL()), post("q"))
		// On loopback, the reset may arrive before connect has returned.
		if f := failureOf(t, err); f.Kind != KindUnreachable || f.Reason != ReasonReset && f.Reason != ReasonEOF && f.Reason != ReasonConnect {
			t.Errorf("failure = %v, want unreachable by a reset, an end or a failed connect", f)
		}
		if x.SendCount() > 1 || s.AcceptedCount() != 1 {
			t.Errorf("%d sends on %d connections: a fresh connection that dies is not replaced", x.SendCount(), s.AcceptedCount())
		}
	})
	t.Run("after Close", func(t *testing.T) {
		tr := transportTo(t, "http://127.0.0.1:1")
		tr.Close()
		_, _, _, err := roundTrip(tr, post("q"))
		wantFailure(t, err, KindUnreachable, ReasonClosed)
	})
}

// deadAddress returns a loopback address that refuses connections.
func deadAddress(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

func TestFailureText(t *testing.T) {
	f := &Failure{Kind: KindTimeout, Upstream: "gpu-a", Clock: TimeoutWrite, Reason: ReasonTimeout, Err: errConnStalled}
	if got, want := f.Error(), "upstream gpu-a: timeout (timeout, write): the upstream does not read the request"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(f, errConnStalled) {
		t.Error("the cause is not unwrapped")
	}
}
