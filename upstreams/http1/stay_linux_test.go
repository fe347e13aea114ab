package http1

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

const chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

func chunk(s string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(s), s) }

type stepFunc func() bool

func (f stepFunc) Step() bool { return f() }

// newStayingExchange returns an exchange whose response head has arrived. After that, the engine
// runs script.
func newStayingExchange(t *testing.T, script func(p *rawserver.Peer)) *Exchange {
	t.Helper()
	headed := make(chan bool)
	tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
		if _, _, ok := p.ReadRequest(); ok {
			p.Send(chunkedHead)
			<-headed
			script(p)
		}
	}).URL())
	x := tr.NewExchange()
	t.Cleanup(x.Close)
	err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds()))
	close(headed)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// readStaying reads a body with StayInPoller. Each step reads the bytes that have arrived.
func readStaying(x *Exchange) (text string, steps int, err error) {
	var b strings.Builder
	p := make([]byte, 300)
	step := func() bool {
		steps++
		for {
			n, err := x.Read(p, inThirtySeconds())
			b.Write(p[:n])
			if err != nil {
				return errors.Is(err, ErrNoBytesYet)
			}
		}
	}
	for {
		x.StayInPoller(inThirtySeconds(), stepFunc(step))
		n, err := x.Read(p, inThirtySeconds())
		b.Write(p[:n])
		if err != nil {
			return b.String(), steps, err
		}
	}
}

// TestStay checks that the same bytes are read with StayInPoller as with Read alone, regardless of
// the pieces in which they arrive.
func TestStay(t *testing.T) {
	checkLeaks(t)
	var want strings.Builder
	x := newStayingExchange(t, func(p *rawserver.Peer) {
		var wire strings.Builder
		for i := range 2000 {
			text := strings.Repeat(fmt.Sprint(i), rand.IntN(20)+1)
			want.WriteString(text)
			wire.WriteString(chunk(text))
		}
		wire.WriteString("0\r\n\r\n")
		for rest := wire.String(); rest != ""; {
			n := min(rand.IntN(200)+1, len(rest))
			if rand.IntN(20) == 0 {
				n = min(3*readBufferSize, len(rest))
			}
			p.Send(rest[:n])
			rest = rest[n:]
			if rand.IntN(3) == 0 {
				time.Sleep(100 * time.Microsecond)
			}
		}
		p.ReadToEnd()
	})
	got, steps, err := readStaying(x)
	if err != io.EOF || got != want.String() {
		t.Errorf("%d bytes, %v; want %d bytes", len(got), err, want.Len())
	}
	if steps == 0 {
		t.Error("the exchange did not stay in the poller")
	}
}

// TestStaySpareBuffer checks that a step may write to SpareBuffer until it returns. The spare buffer must
// not overlap the bytes that have arrived. Its memory must not return to the pool during the step,
// even if the step reads more.
func TestStaySpareBuffer(t *testing.T) {
	checkLeaks(t)
	x := newStayingExchange(t, func(p *rawserver.Peer) {
		p.Send(chunk("token"))
		p.ReadToEnd()
	})
	ran := false
	step := func() bool {
		ran = true
		text, room := x.TakeBuffered(), x.SpareBuffer()
		if n, err := x.Read(make([]byte, 1), inThirtySeconds()); n != 0 || !errors.Is(err, ErrNoBytesYet) {
			t.Errorf("a read in the step: %d, %v; want ErrNoBytesYet", n, err)
		}
		if len(room) == 0 || len(room) > readBufferSize-len(text) {
			t.Fatalf("%d bytes of room", len(room))
		}
		for i := range room {
			room[i] = 'x'
		}
		if string(text) != "token" {
			t.Errorf("took %q", text)
		}
		for range 10 {
			if pooled := readBufferPool.Get().(*[readBufferSize]byte); &pooled[readBufferSize-1] == &room[len(room)-1] {
				t.Error("the buffer is in its pool")
			}
		}
		return false
	}
	if x.StayInPoller(inThirtySeconds(), stepFunc(step)); !ran {
		t.Error("no step")
	}
}

// TestStayEnds checks that a stay ends when the engine closes the connection, even if the close
// arrives together with bytes or just after bytes.
func TestStayEnds(t *testing.T) {
	for name, end := range map[string]func(p *rawserver.Peer){
		"closed":      func(*rawserver.Peer) {},
		"half closed": func(p *rawserver.Peer) { _ = p.TCP.CloseWrite(); p.ReadToEnd() },
		"reset":       func(p *rawserver.Peer) { p.ResetOnClose() },
	} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			for range 200 {
				x := newStayingExchange(t, func(p *rawserver.Peer) {
					p.Send(chunk("one"))
					if rand.IntN(2) == 0 {
						time.Sleep(time.Duration(rand.IntN(int(time.Millisecond))))
					}
					p.Send(chunk("two"))
					end(p)
				})
				begun := time.Now()
				got, _, err := readStaying(x)
				if f := (*Failure)(nil); !errors.As(err, &f) || f.Kind != KindBadResponse {
					t.Fatalf("%q, %v; want a failure", got, err)
				}
				if name != "reset" && got != "onetwo" {
					t.Fatalf("read %q before the end", got)
				}
				if time.Since(begun) > 20*time.Second {
					t.Fatal("the end was seen only at the deadline")
				}
				x.Close()
			}
		})
	}
}

// TestStayAfterHangUp checks a stay that begins after the engine has hung up. The bytes from before
// the hang-up are read within the stay, and the stay ends.
func TestStayAfterHangUp(t *testing.T) {
	checkLeaks(t)
	last := make(chan bool)
	x := newStayingExchange(t, func(p *rawserver.Peer) {
		p.Send(chunk("one"))
		<-last
		p.Send(chunk("two"))
	})
	read := func() bool {
		_, err := x.Read(make([]byte, 10), inThirtySeconds())
		return err == nil
	}
	x.StayInPoller(time.Now().Add(20*time.Millisecond), stepFunc(read))
	close(last)
	waitFor(t, "the hang-up was noticed", x.delivery.c.poll.engineHungUp.Load)
	begun := time.Now()
	if !x.StayInPoller(inThirtySeconds(), stepFunc(read)) || time.Since(begun) > 20*time.Second {
		t.Error("the hang-up was seen only at the deadline")
	}
	if _, err := x.Read(make([]byte, 10), inThirtySeconds()); err == nil {
		t.Error("no failure")
	}
}

// TestStayAborted checks that Abort ends a stay without waiting for a running step.
func TestStayAborted(t *testing.T) {
	t.Run("while it waits", func(t *testing.T) {
		checkLeaks(t)
		closed := make(chan bool)
		x := newStayingExchange(t, func(p *rawserver.Peer) { p.Send(chunk("one")); p.ReadToEnd(); close(closed) })
		step := func() bool {
			_, err := x.Read(make([]byte, 10), inThirtySeconds())
			go x.Abort(errTestCause)
			return err == nil
		}
		x.StayInPoller(inThirtySeconds(), stepFunc(step))
		_, err := x.Read(make([]byte, 10), inThirtySeconds())
		wantFailure(t, err, KindAborted, ReasonAborted)
		x.Close()
		<-closed
	})
	t.Run("while a step runs", func(t *testing.T) {
		checkLeaks(t)
		x := newStayingExchange(t, func(p *rawserver.Peer) { p.Send(chunk("one")); p.ReadToEnd() })
		aborted := make(chan bool)
		step := func() bool {
			go func() { x.Abort(errTestCause); close(aborted) }()
			<-aborted
			_, err := x.Read(make([]byte, 10), inThirtySeconds())
			wantFailure(t, err, KindAborted, ReasonAborted)
			return true
		}
		x.StayInPoller(inThirtySeconds(), stepFunc(step))
		_, err := x.Read(make([]byte, 10), inThirtySeconds())
		wantFailure(t, err, KindAborted, ReasonAborted)
	})
	t.Run("before", func(t *testing.T) {
		checkLeaks(t)
		x := newStayingExchange(t, func(p *rawserver.Peer) { p.ReadToEnd() })
		x.Abort(errTestCause)
		if !x.StayInPoller(inThirtySeconds(), stepFunc(func() bool { return true })) {
			t.Error("an aborted exchange stays")
		}
	})
}

// TestStayPanics checks that the connection can be closed after a step has panicked.
func TestStayPanics(t *testing.T) {
	checkLeaks(t)
	closed := make(chan bool)
	x := newStayingExchange(t, func(p *rawserver.Peer) { p.Send(chunk("one")); p.ReadToEnd(); close(closed) })
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		x.StayInPoller(inThirtySeconds(), stepFunc(func() bool { panic("test") }))
	}()
	x.Close()
	<-closed
}

// TestStayTimesOut checks that a stay ends when its time limit has passed, and that a second stay
// can follow.
func TestStayTimesOut(t *testing.T) {
	checkLeaks(t)
	more := make(chan bool)
	x := newStayingExchange(t, func(p *rawserver.Peer) {
		<-more
		p.Send(chunk("one") + "0\r\n\r\n")
		p.ReadToEnd()
	})
	if x.StayInPoller(time.Now().Add(20*time.Millisecond), stepFunc(func() bool { return true })) {
		t.Error("something has arrived")
	}
	close(more)
	if got, _, err := readStaying(x); got != "one" || err != io.EOF {
		t.Errorf("%q, %v", got, err)
	}
}

// TestStayBadFraming checks that there is no deadlock if the exchange fails within a step because
// of invalid framing.
func TestStayBadFraming(t *testing.T) {
	for _, junk := range []string{"zz\r\n", "HTTP/1.1 502 Bad Gateway\r\n\r\n", chunk("two") + "zz\r\n"} {
		checkLeaks(t)
		closed, read := make(chan bool), make(chan bool)
		x := newStayingExchange(t, func(p *rawserver.Peer) {
			p.Send(chunk("one"))
			<-read
			p.Send(junk)
			p.ReadToEnd()
			close(closed)
		})
		buf := make([]byte, 10)
		var failed error
		x.StayInPoller(inThirtySeconds(), stepFunc(func() bool {
			for {
				n, err := x.Read(buf, inThirtySeconds())
				if string(buf[:n]) == "one" {
					close(read)
				}
				if err != nil {
					failed = err
					return errors.Is(err, ErrNoBytesYet)
				}
			}
		}))
		wantFailure(t, failed, KindBadResponse, ReasonInvalid)
		x.Close()
		<-closed
	}
}
