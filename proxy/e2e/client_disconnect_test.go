package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 33 to 36 and 38 to 40 of the fault matrix, with an edge in this process.
// Their clients disconnect, do not read, or do not send.

// freedWithin is how long the engine may stay busy after a client disconnects.
var freedWithin = 100*time.Millisecond + rig.MachineSlack

var disconnects = []struct {
	name string
	do   func(*rig.RawConn)
}{
	{"FIN", func(c *rig.RawConn) { c.Close() }},
	{"RST", func(c *rig.RawConn) { c.Reset() }},
	{"half-close", func(c *rig.RawConn) { _ = c.Conn.(*net.TCPConn).CloseWrite() }},
}

// wantFreed checks that the engine is free in time, and that the log and the metrics show the
// reason.
func wantFreed(t *testing.T, p *penstock, phase string) {
	t.Helper()
	e := p.Engines[0]
	rig.WaitFor(t, freedWithin, "the engine is free", func() bool { s := e.Stats(); return s.Running+s.Waiting == 0 && s.Aborted == 1 })
	if n := p.Metric("penstock_client_aborts_total", `phase="`+phase+`"`); n != 1 {
		rig.WaitFor(t, rig.WaitTimeout, "the abort is counted as "+phase, func() bool {
			return p.Metric("penstock_client_aborts_total", `phase="`+phase+`"`) == 1
		})
	}
	if l := p.LastAccessLine(); l.Status != 499 && l.Status != 200 || l.Outcome != "client_gone" || l.Attempts != 1 {
		t.Errorf("the log says %+v", l)
	}
	if n := p.Metric("penstock_upstream_breaker_open"); n != 0 {
		t.Error("the client's leaving opened the breaker")
	}
	// The connection to the engine is closed, because the answer on it is unread.
	rig.WaitFor(t, rig.WaitTimeout, "the connection to the engine is closed", func() bool { return e.Stats().Conns <= 1 })
}

// TestLeavesAtOnce checks that a client that disconnects before its call starts is counted like a
// client that disconnects while sending the body.
func TestLeavesAtOnce(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for range 100 {
		c := p.Dial()
		_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":100,"delay_ms":100}`)))
		c.Close()
	}
	rig.WaitFor(t, rig.WaitTimeout, "clients have been counted, and all calls have ended", func() bool {
		return p.Metric("penstock_client_aborts_total") > 0 && p.Metric("penstock_calls_inflight") == 0
	})
	if text := p.MetricsText(); strings.Contains(text, `penstock_client_aborts_total{phase=""}`) {
		t.Error("a client that left is counted under no phase")
	}
}

func TestFault33_LeavesWhileQueued(t *testing.T) {
	t.Parallel()
	for _, how := range disconnects {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			both(t, rig.Setup{Upstream: "concurrency: 1," + rig.QuietProbes, Model: "queue: { depth: 4, wait: 30s }"}, func(t *testing.T, p *penstock, body string) {
				holder := p.OpenStream(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":1000,"delay_ms":100}`))
				holder.Next()
				c := p.Dial()
				_ = c.Send(p.RequestBytes(chatPath, body))
				rig.WaitFor(t, rig.WaitTimeout, "the call is in the queue", func() bool { return p.Status().CountCalls("queued") == 1 })
				how.do(c)
				rig.WaitFor(t, freedWithin, "the queue is left", func() bool { return p.Metric("penstock_client_aborts_total", `phase="queued"`) == 1 })
				holder.Disconnect()
				if l := p.LastAccessLine(); l.Outcome != "client_gone" {
					t.Errorf("the log says %+v", l)
				}
				// The slot is free for the next call, and the abandoned call never reaches the
				// engine.
				p.Post(chatPath, body).WantStatus(200)
				if n := p.Engines[0].Stats().Requests; n != 2 {
					t.Errorf("%d requests upstream, want 2", n)
				}
			})
		})
	}
}

func TestFault34_LeavesBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	for phase, s := range map[string]struct {
		fault, more string
		slots       int
	}{
		"prefill":   {more: `"sim":{"ttft_ms":60000}`},
		"blackhole": {fault: "blackhole"},
		"head only": {fault: "stall-after=0"},
		"answering": {fault: "stall-after=1"},
	} {
		for _, how := range disconnects {
			t.Run(phase+"/"+how.name, func(t *testing.T) {
				t.Parallel()
				both(t, rig.Setup{Upstream: rig.QuietProbes, Stream: "commit_after: 60s"}, func(t *testing.T, p *penstock, body string) {
					if phase == "answering" && strings.Contains(body, "stream") {
						t.Skip("a stream that has begun is row 35")
					}
					p.Engines[0].SetFault(sim.Fault{Spec: s.fault})
					if s.more != "" {
						body = strings.TrimSuffix(body, "}") + "," + s.more + "}"
					}
					c := p.Dial()
					_ = c.Send(p.RequestBytes(chatPath, body))
					rig.WaitFor(t, rig.WaitTimeout, "the engine works", func() bool {
						// An unstreamed answer is complete before it stalls, so its slot is free.
						s := p.Engines[0].Stats()
						return s.Running == 1 || s.Faults == 1 && phase != "blackhole"
					})
					how.do(c)
					wantFreed(t, p, "waiting")
				})
			})
		}
	}
	t.Run("queued at the engine", func(t *testing.T) {
		t.Parallel()
		both(t, rig.Setup{Engines: []sim.Options{{Slots: 1}}, Upstream: "concurrency: 8," + rig.QuietProbes}, func(t *testing.T, p *penstock, body string) {
			holder := p.OpenStream(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":1000,"delay_ms":100}`))
			holder.Next()
			c := p.Dial()
			_ = c.Send(p.RequestBytes(chatPath, body))
			rig.WaitFor(t, rig.WaitTimeout, "the call waits at the engine", func() bool { return p.Engines[0].Stats().Waiting == 1 })
			c.Close()
			rig.WaitFor(t, freedWithin, "the engine's queue is left", func() bool { s := p.Engines[0].Stats(); return s.Waiting == 0 && s.Aborted == 1 })
			holder.Disconnect()
		})
	})
	t.Run("engine that only streams can cancel", func(t *testing.T) {
		t.Parallel()
		// llama.cpp runs an unstreamed request to its end even after the client has disconnected.
		p := start(t, rig.Setup{Engines: []sim.Options{{Profile: "llamacpp", CancelOnlyStreams: true}}, Config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: llamacpp, probe: { interval: 1h } }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
		c := p.Dial()
		_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"sim":{"tokens":10000,"delay_ms":50}`)))
		rig.WaitFor(t, rig.WaitTimeout, "the engine writes", func() bool { return p.Engines[0].Stats().Tokens > 2 })
		c.Close()
		wantFreed(t, p, "waiting")
		r := p.Post(chatPath, p.ChatRequest(`"sim":{"text":"put together"}`)).WantStatus(200)
		if !strings.Contains(r.Body, `"content":"put together"`) || !strings.Contains(r.Body, `"object":"chat.completion"`) || !strings.Contains(r.Body, `"total_tokens"`) {
			t.Errorf("the answer put together from a stream: %s", r.Body)
		}
	})
}

func TestFault35_LeavesInMidStream(t *testing.T) {
	t.Parallel()
	for phase, s := range map[string]struct{ fault, more string }{
		"while tokens come": {more: `,"sim":{"tokens":100000,"delay_ms":20}`},
		"while it is slow":  {more: `,"sim":{"tokens":100,"delay_ms":30000}`},
		"while it is dead":  {fault: "stall-after=2"},
	} {
		for _, how := range disconnects {
			t.Run(phase+"/"+how.name, func(t *testing.T) {
				t.Parallel()
				p := start(t, rig.Setup{Upstream: rig.QuietProbes})
				p.Engines[0].SetFault(sim.Fault{Spec: s.fault})
				c := p.Dial()
				_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true`+s.more)))
				for {
					line, err := c.In.ReadString('\n')
					if err != nil {
						t.Fatal(err)
					}
					if strings.HasPrefix(line, "data:") {
						break
					}
				}
				how.do(c)
				wantFreed(t, p, "streaming")
				if how.name != "half-close" {
					return
				}
				if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || strings.HasSuffix(rest, "0\r\n\r\n") {
					t.Errorf("a client that still reads gets a stream that looks whole: %q", rest[max(0, len(rest)-80):])
				}
			})
		}
	}
}

func (p *penstock) slowReader() *rig.RawConn {
	c := p.Dial()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(256 << 10)
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return c
}

func TestFault36_StopsReading(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Upstream: rig.QuietProbes, Timeouts: "write: 500ms"})
	e := p.Engines[0]
	c := p.slowReader()
	_ = c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":50000000}`)))
	rig.WaitFor(t, rig.WaitTimeout, "the client is dropped", func() bool { s := e.Stats(); return s.Running == 0 && s.Aborted == 1 })
	// The kernel buffers a few megabytes. A higher number would mean that the edge buffers the
	// answer.
	if n := e.Stats().Tokens; n > 500_000 {
		t.Errorf("the engine was read on for %d tokens", n)
	}
	if l := p.LastAccessLine(); l.Outcome != "client_gone" {
		t.Errorf("the log says %+v", l)
	}
}

func TestFault38_Slowloris(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Timeouts: "client_header: 3s, client_idle: 3s"})
	whole := p.RequestBytes(chatPath, p.ChatRequest(""))
	for name, send := range map[string]func(c *rig.RawConn){
		"nothing":       func(*rig.RawConn) {},
		"half a head":   func(c *rig.RawConn) { _ = c.Send(whole[:40]) },
		"head drips":    func(c *rig.RawConn) { c.SendSlowly(whole, 30*time.Millisecond) },
		"idle after":    func(c *rig.RawConn) { _ = c.Send(whole); c.ReadReply("POST").WantStatus(200) },
		"idle in the 2": func(c *rig.RawConn) { _ = c.Send(whole + whole[:30]); c.ReadReply("POST").WantStatus(200) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := p.Dial()
			begun := time.Now()
			done := make(chan struct{})
			go func() { defer close(done); send(c) }()
			if !strings.HasPrefix(name, "idle") {
				rest, ok := c.WaitClosed(3*time.Second + rig.TimingTolerance)
				if !ok {
					t.Errorf("still open after %v", time.Since(begun))
				}
				if rest != "" && !strings.HasPrefix(rest, "HTTP/1.1 408 ") {
					t.Errorf("answer %.80q", rest)
				}
				c.Close()
				<-done
				return
			}
			<-done
			if rest, ok := c.WaitClosed(3*time.Second + rig.TimingTolerance); !ok || rest != "" && !strings.HasPrefix(rest, "HTTP/1.1 408 ") {
				t.Errorf("closed %v, answer %.80q", ok, rest)
			}
		})
	}
}

func TestFault39_BodyStalls(t *testing.T) {
	t.Parallel()
	t.Run("stalls", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Timeouts: "client_body: 400ms", Upstream: "concurrency: 1"})
		body := p.ChatRequest("")
		whole := p.RequestBytes(chatPath, body)
		for _, cut := range []int{len(whole) - len(body), len(whole) - 5} {
			c := p.Dial()
			_ = c.Send(whole[:cut])
			time.Sleep(50 * time.Millisecond)
			if n := p.Metric("penstock_upstream_inflight"); n != 0 {
				t.Error("a slot is held for a body that is not there")
			}
			c.ReadReply("POST").WantError(408, "invalid_request_error", "request_timeout")
			if rest, ok := c.WaitClosed(5 * time.Second); !ok || rest != "" {
				t.Errorf("not closed, or more came: %q", rest)
			}
		}
		if n := p.Engines[0].Stats().Requests; n != 0 {
			t.Errorf("%d requests upstream", n)
		}
	})
	t.Run("drips", func(t *testing.T) {
		t.Parallel()
		fastset.SkipIfShort(t, "a drip is allowed ten seconds")
		p := start(t, rig.Setup{Timeouts: "client_body: 2s"})
		whole := p.RequestBytes(chatPath, p.ChatRequest(`"user":"`+strings.Repeat("x", 4000)+`"`))
		c := p.Dial()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		done := make(chan struct{})
		go func() { defer close(done); c.SendSlowly(whole, 100*time.Millisecond) }()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		c.ReadReply("POST").WantError(408, "invalid_request_error", "request_timeout")
		c.Close()
		<-done
	})
	t.Run("ends early", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{})
		whole := p.RequestBytes(chatPath, p.ChatRequest(""))
		c := p.Dial()
		_ = c.Send(whole[:len(whole)-5])
		c.Close()
		rig.WaitFor(t, rig.WaitTimeout, "the call is over", func() bool { return len(p.AccessLines()) == 1 })
		if n := p.Engines[0].Stats().Requests; n != 0 {
			t.Errorf("%d requests upstream", n)
		}
	})
}

func TestFault40_ManySlowClients(t *testing.T) {
	fastset.SkipIfShort(t, "many slow clients")
	t.Parallel()
	p := start(t, rig.Setup{Timeouts: "client_header: 12s, client_body: 12s"})
	whole := p.RequestBytes(chatPath, p.ChatRequest(""))
	for i := range 200 {
		c := p.Dial()
		switch i % 4 {
		case 0:
		case 1:
			_ = c.Send(whole[:30])
		case 2:
			_ = c.Send(whole[:len(whole)-3])
		case 3:
			_ = c.Send(whole[:strings.Index(whole, "\r\n\r\n")+4])
		}
	}
	for range 20 {
		// The call does not wait for the slow clients' timeouts.
		p.Post(chatPath, p.ChatRequest("")).WantStatus(200).WantWithin(time.Second)
	}
	rig.WaitFor(t, 2*rig.WaitTimeout, "the slow ones are gone", func() bool { return p.Metric("penstock_client_connections") <= 2 })
}
