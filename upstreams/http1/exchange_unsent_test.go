package http1

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// These tests cover small requests on keep-alive connections, which Await writes.

// newUnsentExchange returns an exchange on a reused connection, whose request "second" Await will
// write.
func newUnsentExchange(t *testing.T, script func(p *rawserver.Peer)) *Exchange {
	t.Helper()
	tr := transportTo(t, rawserver.Serve(t, script).URL())
	mustEcho(t, tr, "first")
	x := tr.NewExchange()
	t.Cleanup(x.Close)
	if err := x.Send(post("second")); err != nil {
		t.Fatal(err)
	}
	return x
}

func TestUnsentWaitsForAwait(t *testing.T) {
	checkLeaks(t)
	x := newUnsentExchange(t, rawserver.EchoRequests)
	if x.delivery.c.poll.unsentRequest == nil || !x.WasSentAtOnce() {
		t.Fatal("the request was written by Send: this test sees nothing")
	}
	if err := x.Await(time.Now().Add(-time.Second)); !errors.Is(err, ErrNoBytesYet) {
		t.Fatalf("an Await without patience: %v", err)
	}
	if err := x.Await(inThirtySeconds()); err != nil {
		t.Fatal(err)
	}
	if body, err := readAll(x); err != nil || body != "second" || x.SendCount() != 1 || !x.delivery.reusedConn {
		t.Errorf("body %q, %v, %d sends, reused %v", body, err, x.SendCount(), x.delivery.reusedConn)
	}
}

// TestUnsentHoldsNothing checks that the exchange releases the request's memory before it waits for
// the response.
func TestUnsentHoldsNothing(t *testing.T) {
	checkLeaks(t)
	answer := make(chan bool)
	x := newUnsentExchange(t, func(p *rawserver.Peer) {
		for first := true; ; first = false {
			_, body, ok := p.ReadRequest()
			if !ok {
				return
			}
			if !first {
				<-answer
			}
			p.Send(rawserver.SizedResponse(body))
		}
	})
	if err := x.Await(time.Now().Add(20 * time.Millisecond)); !errors.Is(err, ErrNoBytesYet) {
		t.Fatalf("Await = %v, want %v", err, ErrNoBytesYet)
	}
	if x.delivery.c.poll.unsentRequest != nil || x.SendCount() != 1 || x.reply.received.b != nil {
		t.Errorf("while it waits: request held %v, %d sends, buffer held %v", x.delivery.c.poll.unsentRequest != nil, x.SendCount(), x.reply.received.b != nil)
	}
	close(answer)
	if err := x.Await(inThirtySeconds()); err != nil {
		t.Fatal(err)
	}
}

func TestUnsentAborted(t *testing.T) {
	checkLeaks(t)
	x := newUnsentExchange(t, rawserver.EchoRequests)
	x.Abort(errTestCause)
	if f := wantFailure(t, x.Await(inThirtySeconds()), KindAborted, ReasonAborted); f.Sent || x.SendCount() != 0 {
		t.Errorf("sent %v, %d sends", f.Sent, x.SendCount())
	}
}

// TestUnsentAbortedWhileWaiting checks that an abort closes the connection even if Await rather
// than Send wrote the request.
func TestUnsentAbortedWhileWaiting(t *testing.T) {
	checkLeaks(t)
	got, closed := make(chan bool), make(chan bool)
	tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
		_, body, _ := p.ReadRequest()
		p.Send(rawserver.SizedResponse(body))
		_, _, _ = p.ReadRequest()
		got <- true
		p.ReadToEnd()
		close(closed)
	}).URL())
	mustEcho(t, tr, "first")
	x := tr.NewExchange()
	defer x.Close()
	result := make(chan error, 1)
	go func() { result <- errors.Join(x.Send(post("second")), x.Await(inThirtySeconds())) }()
	<-got
	x.Abort(errTestCause)
	<-closed
	if f := wantFailure(t, <-result, KindAborted, ReasonAborted); !f.Sent {
		t.Error("not told that it was sent")
	}
}

// TestUnsentToAFullSocket checks that if the socket accepts only part of a small request, the
// remaining bytes are written in the same way as those of a large request.
func TestUnsentToAFullSocket(t *testing.T) {
	checkLeaks(t)
	junk, read := make(chan int64, 1), make(chan bool)
	tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
		_, body, _ := p.ReadRequest()
		p.Send(rawserver.SizedResponse(body))
		<-read
		_, _ = io.CopyN(io.Discard, p.Reader, <-junk)
		rawserver.EchoRequests(p)
	}).URL())
	mustEcho(t, tr, "first")
	var filled int64
	c := tr.idle.conns[0]
	_ = c.sock.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for piece := bytes.Repeat([]byte("j"), 64<<10); ; {
		n, err := c.sock.Write(piece)
		filled += int64(n)
		if err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			break
		}
	}
	_ = c.sock.SetWriteDeadline(time.Time{})
	junk <- filled
	time.AfterFunc(50*time.Millisecond, func() { close(read) })
	want := strings.Repeat("s", 15<<10)
	if x := mustEcho(t, tr, want); !x.delivery.reusedConn || x.SendCount() != 1 {
		t.Errorf("reused %v, %d sends", x.delivery.reusedConn, x.SendCount())
	}
}

// TestUnsentInPart checks that bytes that the socket has already accepted are not written again.
func TestUnsentInPart(t *testing.T) {
	checkLeaks(t)
	x := newUnsentExchange(t, rawserver.EchoRequests)
	const taken = 10
	if _, err := x.delivery.c.sock.Write(x.delivery.c.poll.unsentRequest.b[:taken]); err != nil {
		t.Fatal(err)
	}
	x.delivery.c.poll.sentBytes, x.delivery.c.poll.peekResult = taken, queueEmpty
	if err := errors.Join(x.delivery.resumeWrite(&x.life, &x.reply), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	if body, err := readAll(x); err != nil || body != "second" || x.SendCount() != 1 {
		t.Errorf("body %q, %v, %d sends", body, err, x.SendCount())
	}
}
