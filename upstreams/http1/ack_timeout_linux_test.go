package http1

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/fastset"
	"penstock/config/testkit/rawserver"
)

// testAckTimeout is the ackTimeout of these tests: on loopback an acknowledgement takes
// microseconds.
const testAckTimeout = 300 * time.Millisecond

// lateReply is well beyond testAckTimeout, so that an early failure is detected.
const lateReply = 4 * testAckTimeout

// TestKeptConnectionToAHostThatVanished checks that an unacknowledged request is sent again on a
// new connection long before any of the call's timeouts.
func TestKeptConnectionToAHostThatVanished(t *testing.T) {
	for _, size := range []int{10, 100 << 10} { // written by Await, and by Send
		checkLeaks(t)
		gone, gate := make(chan bool), make(chan bool)
		tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
			if p.N > 0 {
				rawserver.Echo(p)
				return
			}
			_, body, _ := p.Request()
			p.Send(rawserver.Sized(body))
			<-gone
			p.Vanish()
			gate <- true
			<-gone
			p.Appear()
			// several of the kernel's retransmissions
			_ = p.TCP.SetReadDeadline(time.Now().Add(5 * testAckTimeout))
			if n, _ := p.Reader.Read(make([]byte, 10)); n > 0 {
				p.T.Error("what was sent elsewhere was delivered when the host came back")
			}
		}).URL())
		tr.ackTimeout = testAckTimeout
		mustEcho(t, tr, "first")
		gone <- true
		<-gate
		x := mustEcho(t, tr, strings.Repeat("s", size))
		if x.Sends() != 2 {
			t.Errorf("%d bytes were sent %d times, want 2", size, x.Sends())
		}
		close(gone)
	}
}

// TestHostThatVanishesWithinARequest checks that the exchange fails as with an unreachable engine,
// so another engine may be asked.
func TestHostThatVanishesWithinARequest(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, func(*rawserver.Peer)) *rawserver.Server{"plain": rawserver.Serve, "TLS": rawserver.ServeTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			done := make(chan bool)
			defer close(done)
			tr := transportTo(t, serve(t, func(p *rawserver.Peer) {
				_, _ = io.ReadFull(p.Reader, make([]byte, 100))
				p.Vanish()
				<-done
			}).URL())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 32<<20)}, time.Minute
			_, _, _, err := roundTrip(tr, r)
			wantFailure(t, err, Unreachable, ReasonSilent)
		})
	}
}

// TestEngineThatReadsLate checks that a closed window does not mean that the host is silent.
func TestEngineThatReadsLate(t *testing.T) {
	fastset.LeaveOut(t, "an engine that reads late")
	for name, serve := range map[string]func(*testing.T, func(*rawserver.Peer)) *rawserver.Server{"plain": rawserver.Serve, "TLS": rawserver.ServeTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			tr := transportTo(t, serve(t, func(p *rawserver.Peer) {
				_, _ = io.ReadFull(p.Reader, make([]byte, 1))
				_ = p.Reader.UnreadByte()
				time.Sleep(lateReply)
				_, body, ok := p.Request()
				if !ok {
					p.T.Error("the request did not come")
				}
				time.Sleep(lateReply) // by now nothing is in flight
				p.Send(rawserver.Sized(body[:10]))
			}).URL())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 16<<20)}, time.Minute
			_, body, x, err := roundTrip(tr, r)
			if err != nil || body != "xxxxxxxxxx" || x.Sends() != 1 {
				t.Errorf("answer = %q, %v after %d sends; want ten x after 1", body, err, x.Sends())
			}
		})
	}
}
