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

// testAckTimeout is the ackTimeout in these tests. On loopback, an acknowledgement takes
// microseconds.
const testAckTimeout = 300 * time.Millisecond

// lateReply is well above testAckTimeout, so that an early failure is detected.
const lateReply = 4 * testAckTimeout

// TestReusedConnectionToVanishedHost checks that an unacknowledged request is sent again on a
// new connection long before the call times out.
func TestReusedConnectionToVanishedHost(t *testing.T) {
	for _, size := range []int{10, 100 << 10} { // Await writes the small request, and Send the large one
		checkLeaks(t)
		gone, gate := make(chan bool), make(chan bool)
		tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
			if p.N > 0 {
				rawserver.EchoRequests(p)
				return
			}
			_, body, _ := p.ReadRequest()
			p.Send(rawserver.SizedResponse(body))
			<-gone
			p.DropPackets()
			gate <- true
			<-gone
			p.RestorePackets()
			// Enough for more than one retransmission by the kernel.
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
		if x.SendCount() != 2 {
			t.Errorf("%d bytes were sent %d times, want 2", size, x.SendCount())
		}
		close(gone)
	}
}

// TestHostThatVanishesWithinARequest checks that the exchange fails with KindUnreachable, so that
// the call may be retried on another engine.
func TestHostThatVanishesWithinARequest(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, func(*rawserver.Peer)) *rawserver.Server{"plain": rawserver.Serve, "TLS": rawserver.ServeTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			done := make(chan bool)
			defer close(done)
			tr := transportTo(t, serve(t, func(p *rawserver.Peer) {
				_, _ = io.ReadFull(p.Reader, make([]byte, 100))
				p.DropPackets()
				<-done
			}).URL())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 32<<20)}, time.Minute
			_, _, _, err := roundTrip(tr, r)
			wantFailure(t, err, KindUnreachable, ReasonSilent)
		})
	}
}

// TestEngineThatReadsLate checks that a host does not count as silent because its TCP window is
// closed.
func TestEngineThatReadsLate(t *testing.T) {
	fastset.SkipIfShort(t, "an engine that reads late")
	for name, serve := range map[string]func(*testing.T, func(*rawserver.Peer)) *rawserver.Server{"plain": rawserver.Serve, "TLS": rawserver.ServeTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			tr := transportTo(t, serve(t, func(p *rawserver.Peer) {
				_, _ = io.ReadFull(p.Reader, make([]byte, 1))
				_ = p.Reader.UnreadByte()
				time.Sleep(lateReply)
				_, body, ok := p.ReadRequest()
				if !ok {
					p.T.Error("the request did not come")
				}
				time.Sleep(lateReply) // by now, no bytes are in flight
				p.Send(rawserver.SizedResponse(body[:10]))
			}).URL())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 16<<20)}, time.Minute
			_, body, x, err := roundTrip(tr, r)
			if err != nil || body != "xxxxxxxxxx" || x.SendCount() != 1 {
				t.Errorf("answer = %q, %v after %d sends; want ten x after 1", body, err, x.SendCount())
			}
		})
	}
}
