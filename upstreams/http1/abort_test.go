package http1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// TestAbort aborts an exchange in every phase. The running call must return a Failure of kind
// KindAborted with the cause, and the engine must detect the end of the connection within 100 ms.
func TestAbort(t *testing.T) {
	streamHead := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	readUntilError := func(x *Exchange, until time.Time) error {
		p := make([]byte, 100)
		for {
			if _, err := x.Read(p, until); err != nil {
				return err
			}
		}
	}
	begins := func(p *rawserver.Peer) { _, _ = p.Reader.Peek(1) } // the request has started
	tests := []struct {
		name   string
		engine func(p *rawserver.Peer) // simulates the engine until it only waits for the abort
		body   int
		reader bool
		run    func(x *Exchange, r *Request) error
	}{
		{name: "write", engine: begins, body: 16 << 20, run: func(x *Exchange, r *Request) error { return x.Send(r) }},
		{name: "write of a reader", engine: begins, body: 16 << 20, reader: true, run: func(x *Exchange, r *Request) error { return x.Send(r) }},
		{name: "head", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest() }, run: func(x *Exchange, r *Request) error {
			return errors.Join(x.Send(r), x.Await(time.Time{}))
		}},
		{name: "head begun", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.Send("HTTP/1.1 20") }, run: func(x *Exchange, r *Request) error {
			return errors.Join(x.Send(r), x.Await(inThirtySeconds()))
		}},
		{name: "after the head", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.Send(streamHead) }, run: func(x *Exchange, r *Request) error {
			if err := errors.Join(x.Send(r), x.Await(inThirtySeconds())); err != nil {
				return err
			}
			time.Sleep(60 * time.Millisecond) // during the abort, no call of the owner is running
			return readUntilError(x, inThirtySeconds())
		}},
		{name: "silent stream", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.Send(streamHead + "3\r\nabc\r\n") }, run: func(x *Exchange, r *Request) error {
			if err := errors.Join(x.Send(r), x.Await(inThirtySeconds())); err != nil {
				return err
			}
			return readUntilError(x, inThirtySeconds())
		}},
		{name: "wait of a silent stream", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.Send(streamHead) }, run: func(x *Exchange, r *Request) error {
			if err := errors.Join(x.Send(r), x.Await(inThirtySeconds())); err != nil {
				return err
			}
			x.WaitReadable(inThirtySeconds())
			return readUntilError(x, inThirtySeconds())
		}},
		{name: "body until close", engine: func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.Send("HTTP/1.1 200 OK\r\n\r\nabc") }, run: func(x *Exchange, r *Request) error {
			if err := errors.Join(x.Send(r), x.Await(inThirtySeconds())); err != nil {
				return err
			}
			return readUntilError(x, time.Time{})
		}},
	}
	for _, secure := range []bool{false, true} {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, TLS %v", tt.name, secure), func(t *testing.T) {
				checkLeaks(t)
				var took time.Duration
				// A single attempt may be late on a busy machine, but an abort that blocks is late
				// every time.
				for range 10 {
					if took = abortOnce(t, secure, tt.body, tt.reader, tt.engine, tt.run); took <= 100*time.Millisecond {
						return
					}
				}
				t.Errorf("the engine saw the close after %v", took)
			})
		}
	}
}

// abortOnce runs one case and returns how long it took until the engine detected the end of the
// connection.
func abortOnce(t *testing.T, secure bool, size int, reader bool, engine func(*rawserver.Peer), run func(*Exchange, *Request) error) time.Duration {
	t.Helper()
	waiting, closed, begun := make(chan bool), make(chan time.Time, 1), make(chan bool)
	script := func(p *rawserver.Peer) {
		if secure {
			_, _ = p.Reader.Peek(1) // the handshake
		}
		engine(p)
		waiting <- true
		if size > 0 {
			<-begun // untilReset writes to the connection, and an earlier write would look like a response
			closed <- untilReset(p)
			return
		}
		p.ReadToEnd()
		closed <- time.Now()
	}
	s := rawserver.Serve(t, script)
	if secure {
		s = rawserver.ServeTLS(t, script)
	}
	x := transportTo(t, s.URL()).NewExchange()
	defer x.Close()
	r := post(strings.Repeat("a", size))
	r.WriteTimeout = 5 * time.Second
	if reader {
		r.BodyReader, r.Body = bytes.NewReader(r.Body[0]), nil
	}
	result := make(chan error, 1)
	go func() { result <- run(x, r) }()
	<-waiting
	time.Sleep(20 * time.Millisecond) // the goroutine enters the blocking call
	begin := time.Now()
	x.Abort(errTestCause)
	close(begun)
	x.Abort(errors.New("a later cause"))
	var at time.Time
	select {
	case at = <-closed:
	case <-time.After(30 * time.Second):
		t.Fatal("the engine never saw the close")
	}
	err := <-result
	f := wantFailure(t, err, KindAborted, ReasonAborted)
	if !errors.Is(err, errTestCause) || !f.Sent {
		t.Errorf("failure %v, sent %v", f, f.Sent)
	}
	wantFailure(t, x.Await(inThirtySeconds()), KindAborted, ReasonAborted)
	_, err = x.Read(make([]byte, 1), inThirtySeconds())
	wantFailure(t, err, KindAborted, ReasonAborted)
	return at.Sub(begin)
}

// untilReset waits until the connection has ended. It does not read, because even an engine that is
// too busy to read must detect the end of the connection.
func untilReset(p *rawserver.Peer) time.Time {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		// A write fails after a reset, even while received bytes are queued.
		if _, err := p.TCP.Write([]byte{0}); err != nil {
			return time.Now()
		}
	}
	return time.Now()
}

func TestAbortBeforeConnected(t *testing.T) {
	begun := make(chan bool, 1)
	phases := []struct {
		name string
		to   func(t *testing.T) *Transport
	}{
		{"resolving", func(t *testing.T) *Transport {
			tr := transportTo(t, "http://engine.invalid:1")
			tr.dns.lookup = func(ctx context.Context, _, _ string) ([]netip.Addr, error) {
				begun <- true
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return tr
		}},
		{"connecting", func(t *testing.T) *Transport {
			tr := transportTo(t, "http://127.0.0.1:1")
			tr.dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				begun <- true
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return tr
		}},
		{"handshake", func(t *testing.T) *Transport {
			s := rawserver.Serve(t, func(p *rawserver.Peer) {
				_, _ = p.Reader.ReadByte()
				begun <- true
				p.ReadToEnd()
			})
			return transportTo(t, "https://"+s.Listener.Addr().String())
		}},
	}
	for _, tt := range phases {
		t.Run(tt.name, func(t *testing.T) {
			checkLeaks(t)
			tr := tt.to(t)
			x := tr.NewExchange()
			result := make(chan error, 1)
			go func() { result <- x.Send(post("q")) }()
			<-begun
			begin := time.Now()
			x.Abort(errTestCause)
			f := wantFailure(t, <-result, KindAborted, ReasonAborted)
			if f.Sent || !errors.Is(f, errTestCause) || time.Since(begin) > 5*time.Second {
				t.Errorf("failure %v, sent %v, after %v", f, f.Sent, time.Since(begin))
			}
			x.Close()
		})
	}
	t.Run("before Send", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		x := tr.NewExchange()
		x.Abort(nil)
		wantFailure(t, x.Send(post("q")), KindAborted, ReasonAborted)
		if s.AcceptedCount() != 0 {
			t.Error("an aborted exchange has connected")
		}
		if f := failureOf(t, x.Await(inThirtySeconds())); !errors.Is(f, context.Canceled) {
			t.Errorf("the cause is %v, want context.Canceled", f.Err)
		}
		x.Close()
		mustEcho(t, tr, "q")
	})
	t.Run("after Close", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		x := mustEcho(t, tr, "q")
		next := tr.NewExchange()
		defer next.Close()
		if err := next.Send(post("next")); err != nil || !next.delivery.reusedConn {
			t.Fatal(err, next.delivery.reusedConn)
		}
		x.Abort(errTestCause) // has no effect, because the connection already serves another exchange
		if err := next.Await(inThirtySeconds()); err != nil {
			t.Fatal(err)
		}
		if body, err := readAll(next); body != "next" || err != nil {
			t.Fatal(body, err)
		}
		if _, err := x.Read(make([]byte, 1), inThirtySeconds()); failureOf(t, err).Kind != KindAborted {
			t.Error("Read after Close")
		}
	})
}

// TestAbortRace aborts exchanges at random moments while other exchanges follow on the same
// connections. A late abort must not affect the next exchange on the same connection, so only
// aborted exchanges may fail.
func TestAbortRace(t *testing.T) {
	checkLeaks(t)
	s := rawserver.Serve(t, rawserver.EchoRequests)
	tr := transportTo(t, s.URL())
	var wg sync.WaitGroup
	var aborted, whole atomic.Int32
	for w := range 4 {
		wg.Go(func() {
			for i := range 150 {
				x := tr.NewExchange()
				threatened := (i+w)%2 == 0
				stop := make(chan bool)
				if threatened {
					go func() {
						defer close(stop)
						time.Sleep(time.Duration(i%16) * 20 * time.Microsecond)
						x.Abort(errTestCause)
					}()
				} else {
					close(stop)
				}
				body := fmt.Sprintf("exchange %d of worker %d", i, w)
				err := x.Send(post(body))
				if err == nil {
					err = x.Await(inThirtySeconds())
				}
				got := ""
				if err == nil {
					got, err = readAll(x)
				}
				if i%3 == 0 {
					<-stop
				}
				x.Close()
				switch {
				case err == nil && got == body:
					whole.Add(1)
				case threatened && errors.Is(err, errTestCause):
					aborted.Add(1)
				default:
					t.Errorf("threatened %v: body %q, error %v", threatened, got, err)
				}
				<-stop
			}
		})
	}
	wg.Wait()
	if aborted.Load() == 0 || whole.Load() < 300 {
		t.Errorf("%d aborted, %d whole: the race was not run", aborted.Load(), whole.Load())
	}
}

// TestCloseEndsTheExchange checks that Close closes the socket if the exchange has not ended yet,
// even without an abort.
func TestCloseEndsTheExchange(t *testing.T) {
	checkLeaks(t)
	closed := make(chan error, 1)
	s := rawserver.Serve(t, func(p *rawserver.Peer) {
		_, _, _ = p.ReadRequest()
		p.Send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
		_, err := p.Reader.ReadByte()
		closed <- err
		for err = nil; err == nil; time.Sleep(time.Millisecond) {
			// The write fails once the edge has closed its socket.
			_, err = p.Write([]byte("1\r\na\r\n"))
		}
		closed <- err
	})
	x := transportTo(t, s.URL()).NewExchange()
	if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
		t.Fatal(err)
	}
	x.Close()
	for _, want := range []error{io.EOF, net.ErrClosed} {
		select {
		case err := <-closed:
			if want == io.EOF && err != io.EOF {
				t.Errorf("the engine read %v", err)
			}
		case <-time.After(30 * time.Second):
			t.Fatal("the engine did not notice")
		}
	}
}
