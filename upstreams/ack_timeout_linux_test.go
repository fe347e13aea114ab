package upstreams

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// vanish makes the engine's host disappear as far as this connection goes: what comes is dropped
// before TCP sees it, so nothing is acknowledged and nothing is reset.
func (p *peer) vanish() { dropAll(p.t, p.tcp) }

// dropAll makes the kernel drop whatever comes for a socket. A listener's connects time out then,
// and its connections go on.
func dropAll(t *testing.T, of syscall.Conn) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	raw, err := of.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]})
		}), err)
	}
	if err != nil {
		t.Error(err)
	}
}

// appear takes vanish back.
func (p *peer) appear() {
	if raw, err := p.tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	}
}

// testAckTimeout is the ackTimeout of these tests: a loopback acknowledges in microseconds.
const testAckTimeout = 300 * time.Millisecond

// lateReply is well beyond testAckTimeout, so that giving up would show.
const lateReply = 4 * testAckTimeout

// TestKeptConnectionToAHostThatVanished: what nobody acknowledged goes to a new connection long
// before any clock of a call.
func TestKeptConnectionToAHostThatVanished(t *testing.T) {
	for _, size := range []int{10, 100 << 10} { // written by Await, and by Send
		checkLeaks(t)
		gone, gate := make(chan bool), make(chan bool)
		tr := transportTo(t, serveRaw(t, func(p *peer) {
			if p.n > 0 {
				echo(p)
				return
			}
			_, body, _ := p.request()
			p.send(sized(body))
			<-gone
			p.vanish()
			gate <- true
			<-gone
			p.appear()
			_ = p.tcp.SetReadDeadline(time.Now().Add(5 * testAckTimeout)) // some repetitions of the system's
			if n, _ := p.r.Read(make([]byte, 10)); n > 0 {
				p.t.Error("what was sent elsewhere was delivered when the host came back")
			}
		}).url())
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

// TestHostThatVanishesWithinARequest: the exchange fails as with an engine that cannot be reached,
// so that another may be asked.
func TestHostThatVanishesWithinARequest(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, func(*peer)) *rawServer{"plain": serveRaw, "TLS": serveRawTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			done := make(chan bool)
			defer close(done)
			tr := transportTo(t, serve(t, func(p *peer) {
				_, _ = io.ReadFull(p.r, make([]byte, 100))
				p.vanish()
				<-done
			}).url())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 32<<20)}, time.Minute
			_, _, _, err := roundTrip(tr, r)
			wantFailure(t, err, Unreachable, ReasonSilent)
		})
	}
}

// TestEngineThatReadsLate: a window that stays closed is not a host that is silent.
func TestEngineThatReadsLate(t *testing.T) {
	for name, serve := range map[string]func(*testing.T, func(*peer)) *rawServer{"plain": serveRaw, "TLS": serveRawTLS} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			tr := transportTo(t, serve(t, func(p *peer) {
				_, _ = io.ReadFull(p.r, make([]byte, 1))
				_ = p.r.UnreadByte()
				time.Sleep(lateReply)
				_, body, ok := p.request()
				if !ok {
					p.t.Error("the request did not come")
				}
				time.Sleep(lateReply) // and then there is nothing on its way
				p.send(sized(body[:10]))
			}).url())
			tr.ackTimeout = testAckTimeout
			r := post("")
			r.Body, r.WriteTimeout = [][]byte{bytes.Repeat([]byte("x"), 16<<20)}, time.Minute
			_, body, x, err := roundTrip(tr, r)
			if err != nil || body != "xxxxxxxxxx" || x.Sends() != 1 {
				t.Errorf("%q, %v, %d sends", body, err, x.Sends())
			}
		})
	}
}
