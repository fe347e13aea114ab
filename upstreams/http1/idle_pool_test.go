package http1

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"penstock/config/testkit/rawserver"
)

// TestReusedConnectionRetires checks that even a connection in constant use is closed after five
// minutes, so that the edge detects when the engine's name resolves to a new address.
func TestReusedConnectionRetires(t *testing.T) {
	p := idlePool{maxConns: 4, idleTimeout: time.Minute, hosts: new(HostWatch)}
	defer p.close()
	near, far := net.Pipe()
	defer far.Close()
	c, now := &conn{nc: near, sock: &net.TCPConn{}}, time.Now()
	p.putConn(c, 0, now)
	for used := time.Duration(0); used < maxReuseTime; used += 30 * time.Second {
		if got := p.takeConn(now.Add(used)); got != c {
			t.Fatalf("gone after %v", used)
		}
		p.putConn(c, 0, now.Add(used))
	}
	if p.takeConn(now.Add(maxReuseTime)) != nil {
		t.Error("kept for longer than five minutes")
	}
}

// TestStaleConnections checks that the next exchange succeeds regardless of what happens to an idle
// connection.
func TestStaleConnections(t *testing.T) {
	tests := []struct {
		name  string
		spoil func(p *rawserver.Peer) // what the engine does on the first connection after its first response
		sends int
	}{
		{"closed while idle", func(*rawserver.Peer) {}, 1},
		{"reset while idle", func(p *rawserver.Peer) { p.ResetOnClose() }, 1},
		{"unasked bytes", func(p *rawserver.Peer) { p.Send(rawserver.SizedResponse("forged")); p.ReadToEnd() }, 1},
		{"unasked timeout reply", func(p *rawserver.Peer) { p.Send("HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n") }, 1},
		{"closed as the request comes", func(p *rawserver.Peer) { _, _, _ = p.ReadRequest() }, 2},
		{"reset as the request comes", func(p *rawserver.Peer) { _, _, _ = p.ReadRequest(); p.ResetOnClose() }, 2},
		{"reset with the request unread", func(p *rawserver.Peer) { _, _ = p.Reader.Peek(1); p.ResetOnClose() }, 2},
	}
	for _, way := range []string{"", ", large", ", TLS"} {
		for _, tt := range tests {
			name, secure, second := tt.name+way, way == ", TLS", "second"
			if way == ", large" {
				second = strings.Repeat("second", maxSmallBody)
			}
			t.Run(name, func(t *testing.T) {
				checkLeaks(t)
				spoiled := make(chan bool)
				script := func(p *rawserver.Peer) {
					if p.N > 0 {
						rawserver.EchoRequests(p)
						return
					}
					_, body, _ := p.ReadRequest()
					p.Send(rawserver.SizedResponse(body))
					if tt.sends == 1 {
						<-spoiled // the response has been read
					}
					tt.spoil(p)
				}
				s := rawserver.Serve(t, script)
				if secure {
					s = rawserver.ServeTLS(t, script)
				}
				tr := transportTo(t, s.URL())
				tr.hosts.noReuseFor = 0 // allows reuse after unsolicited bytes; see TestReuseStops
				mustEcho(t, tr, "first")
				if tt.sends == 1 {
					spoiled <- true
					waitUnquiet(t, tr)
				}
				x := mustEcho(t, tr, second)
				if x.SendCount() != tt.sends || x.delivery.reusedConn {
					t.Errorf("%d sends, reused %v; want %d on a new connection", x.SendCount(), x.delivery.reusedConn, tt.sends)
				}
				if !mustEcho(t, tr, "third").delivery.reusedConn {
					t.Error("the new connection was not kept")
				}
			})
		}
	}
}

// waitUnquiet waits until the effect of the engine's action has reached the idle connection.
func waitUnquiet(t *testing.T, tr *Transport) {
	t.Helper()
	if !canPeek {
		time.Sleep(30 * time.Millisecond)
		return
	}
	waitFor(t, "the idle connection has bytes, or has ended", func() bool { return tr.idle.conns[0].peek() != queueEmpty })
}

func TestReplayLimits(t *testing.T) {
	t.Run("once only", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			if _, body, ok := p.ReadRequest(); ok && p.N == 0 {
				p.Send(rawserver.SizedResponse(body))
				_, _, _ = p.ReadRequest()
			}
		})
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		_, _, x, err := roundTrip(tr, post("second"))
		if f := wantFailure(t, err, KindUnreachable, ReasonEOF); !f.Sent || x.SendCount() != 2 || s.AcceptedCount() != 2 {
			t.Errorf("sent %v, %d sends, %d connections", f.Sent, x.SendCount(), s.AcceptedCount())
		}
	})
	t.Run("not after the engine had time to work", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			_, body, _ := p.ReadRequest()
			p.Send(rawserver.SizedResponse(body))
			if _, _, ok := p.ReadRequest(); ok {
				time.Sleep(resendWithin + 200*time.Millisecond)
			}
		})
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		_, _, x, err := roundTrip(tr, post("second"))
		if f := wantFailure(t, err, KindUnreachable, ReasonEOF); !f.Sent || x.SendCount() != 1 || s.AcceptedCount() != 1 {
			t.Errorf("sent %v, %d sends, %d connections", f.Sent, x.SendCount(), s.AcceptedCount())
		}
	})
	dying := func(p *rawserver.Peer) {
		if _, body, ok := p.ReadRequest(); ok {
			p.Send(rawserver.SizedResponse(body))
			_, _ = p.Reader.Peek(1)
			if p.N > 0 {
				rawserver.EchoRequests(p)
			}
		}
	}
	t.Run("NoReplay gets a new connection", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, dying)
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		r := post("second")
		r.NoReplay = true
		_, body, x, err := roundTrip(tr, r)
		if err != nil || body != "second" || x.delivery.reusedConn || x.SendCount() != 1 {
			t.Errorf("body %q, %v, %d sends, reused %v", body, err, x.SendCount(), x.delivery.reusedConn)
		}
	})
	t.Run("a body reader gets a new connection", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, dying)
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		r := post("")
		r.Body, r.BodyReader = nil, strings.NewReader("second")
		_, body, x, err := roundTrip(tr, r)
		if err != nil || body != "second" || x.delivery.reusedConn || x.SendCount() != 1 {
			t.Errorf("body %q, %v, reused %v", body, err, x.delivery.reusedConn)
		}
	})
	t.Run("not after a byte of the reply", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			_, body, _ := p.ReadRequest()
			p.Send(rawserver.SizedResponse(body))
			_, _, _ = p.ReadRequest()
			p.Send("H")
		})
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		_, _, x, err := roundTrip(tr, post("second"))
		wantFailure(t, err, KindBadResponse, ReasonTruncated)
		if x.SendCount() != 1 {
			t.Errorf("%d sends, want 1", x.SendCount())
		}
	})
	t.Run("a large body dies half-way", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			if p.N > 0 {
				rawserver.EchoRequests(p)
				return
			}
			_, body, _ := p.ReadRequest()
			p.Send(rawserver.SizedResponse(body))
			_, _ = io.CopyN(io.Discard, p.Reader, 100000)
			p.ResetOnClose()
		})
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "first")
		if x := mustEcho(t, tr, strings.Repeat("large", 1<<20)); x.SendCount() != 2 {
			t.Errorf("%d sends, want 2", x.SendCount())
		}
	})
}

func TestIdleConnections(t *testing.T) {
	t.Run("the last one is used first", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL())
		a, b := tr.NewExchange(), tr.NewExchange()
		for _, x := range []*Exchange{a, b} {
			if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(x); err != nil {
				t.Fatal(err)
			}
		}
		of := b.delivery.c
		a.Close()
		b.Close()
		if got := tr.idle.takeConn(time.Now()); got != of {
			t.Error("not the connection that was used last")
		} else {
			got.close()
		}
	})
	t.Run("closed when the time is up, without another exchange", func(t *testing.T) {
		checkLeaks(t)
		closed := make(chan bool, 1)
		s := rawserver.Serve(t, func(p *rawserver.Peer) { rawserver.EchoRequests(p); closed <- true })
		tr := transportTo(t, s.URL(), func(o *TransportOptions) { o.IdleTimeout = 30 * time.Millisecond })
		for range 2 { // the second round checks that the timer is set again
			mustEcho(t, tr, "q")
			select {
			case <-closed:
			case <-time.After(30 * time.Second):
				t.Fatal("an idle connection was kept")
			}
		}
	})
	t.Run("the engine asks for less time", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, func(p *rawserver.Peer) {
			for {
				_, _, ok := p.ReadRequest()
				if !ok {
					return
				}
				p.Send("HTTP/1.1 200 OK\r\nKeep-Alive: max=100, Timeout=2\r\nContent-Length: 0\r\n\r\n")
			}
		})
		tr := transportTo(t, s.URL())
		if _, _, _, err := roundTrip(tr, post("q")); err != nil {
			t.Fatal(err)
		}
		if left := time.Until(tr.idle.conns[0].idleUntil); left > 1600*time.Millisecond || left < time.Second {
			t.Errorf("the connection is kept for %v, want 1.6 s", left)
		}
		if c := tr.idle.takeConn(time.Now().Add(2 * time.Second)); c != nil {
			t.Error("a connection was taken after its time")
		}
	})
	t.Run("bounded", func(t *testing.T) {
		checkLeaks(t)
		s := rawserver.Serve(t, rawserver.EchoRequests)
		tr := transportTo(t, s.URL(), func(o *TransportOptions) { o.MaxIdle = 2 })
		var xs []*Exchange
		for range 4 {
			x := tr.NewExchange()
			if err := errors.Join(x.Send(post("q")), x.Await(inThirtySeconds())); err != nil {
				t.Fatal(err)
			}
			if _, err := readAll(x); err != nil {
				t.Fatal(err)
			}
			xs = append(xs, x)
		}
		for _, x := range xs {
			x.Close()
		}
		if len(tr.idle.conns) != 2 {
			t.Errorf("%d idle connections, want 2", len(tr.idle.conns))
		}
	})
	t.Run("CloseIdle and Close", func(t *testing.T) {
		checkLeaks(t)
		closed := make(chan bool, 3)
		s := rawserver.Serve(t, func(p *rawserver.Peer) { rawserver.EchoRequests(p); closed <- true })
		tr := transportTo(t, s.URL())
		mustEcho(t, tr, "q")
		tr.CloseIdle()
		<-closed
		x := tr.NewExchange()
		if err := x.Send(post("still")); err != nil {
			t.Fatal(err)
		}
		tr.Close()
		tr.Close()
		if err := x.Await(inThirtySeconds()); err != nil {
			t.Fatal(err)
		}
		if body, err := readAll(x); body != "still" || err != nil {
			t.Errorf("an exchange under way was harmed by Close: %q, %v", body, err)
		}
		x.Close()
		<-closed
	})
}

// TestReuseStops checks that after unsolicited bytes have arrived, each connection is used only
// once for some time. Bytes on a connection that has been idle for more than a second do not count.
func TestReuseStops(t *testing.T) {
	for name, late := range map[string]bool{"right behind a reply": false, "long after it": true} {
		t.Run(name, func(t *testing.T) {
			checkLeaks(t)
			spoiled := make(chan bool)
			tr := transportTo(t, rawserver.Serve(t, func(p *rawserver.Peer) {
				if p.N == 0 {
					_, body, _ := p.ReadRequest()
					p.Send(rawserver.SizedResponse(body))
					<-spoiled
					p.Send(rawserver.SizedResponse("forged"))
				}
				rawserver.EchoRequests(p)
			}).URL())
			told := 0
			tr.hosts.onReuseStopped = func(time.Duration) { told++ }
			mustEcho(t, tr, "first")
			spoiled <- true
			waitUnquiet(t, tr)
			if late {
				tr.idle.conns[0].poll.idleSince = time.Now().Add(-2 * time.Second)
			}
			mustEcho(t, tr, "second")
			if reused := mustEcho(t, tr, "third").delivery.reusedConn; reused != late {
				t.Errorf("the connection of the call before is used again: %v", reused)
			}
			want := 1
			if late {
				want = 0
			}
			if n := tr.hosts.surplusCount.Load(); n != int64(want) || told != want {
				t.Errorf("counted %d times, told %d times", n, told)
			}
			now := time.Now()
			tr.hosts.noReuseUntil.Store(&now) // the pause is over
			mustEcho(t, tr, "fourth")
			if !mustEcho(t, tr, "fifth").delivery.reusedConn {
				t.Error("connections are not used again")
			}
		})
	}
}
