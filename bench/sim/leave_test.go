package sim

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"
)

// TestLeaving checks that a client that leaves by FIN or RST frees its slot immediately, in every
// phase and for both streamed and unstreamed responses.
func TestLeaving(t *testing.T) {
	const forever = `,"sim":{"tokens":1000,"ttft_ms":%d,"delay_ms":%d}`
	phases := []struct {
		name        string
		ttft, delay int
		fault       string
		queued      bool
		running     int // expected number of running requests while the client is connected
	}{
		{"prefill", 60000, 10, "", false, 1},
		{"decode", 0, 5, "", false, 1},
		{"silent decode", 0, 60000, "", false, 1},
		{"queue", 0, 10, "", true, 1},
		{"blackhole", 0, 0, "blackhole", false, 1},
		{"stall", 0, 1, "stall-after=3", false, 1},
		{"fault's delay", 0, 1, "reset-before;delay=60s", false, 0},
	}
	for _, p := range phases {
		for _, stream := range []bool{true, false} {
			for _, reset := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/stream=%v/reset=%v", p.name, stream, reset), func(t *testing.T) {
					t.Parallel()
					e := start(t, Options{Slots: 1})
					var blocker *client
					if p.queued {
						blocker = dial(t, e)
						blocker.post("/v1/chat/completions", chatBody("hi", `,"stream":true`+fmt.Sprintf(forever, 60000, 0)))
						eventually(t, "blocker runs", func() bool { return e.Stats().Running == 1 })
					}
					if p.fault != "" {
						e.SetFault(Fault{Spec: p.fault})
					}
					c := dial(t, e)
					c.post("/v1/chat/completions", chatBody("hi", fmt.Sprintf(`,"stream":%v`, stream)+fmt.Sprintf(forever, p.ttft, p.delay)))
					eventually(t, "request is in its phase", func() bool {
						s := e.Stats()
						if p.queued {
							return s.Waiting == 1
						}
						return s.Running == p.running && s.Requests == 1
					})
					if p.ttft == 0 && stream {
						time.Sleep(10 * time.Millisecond)
					}
					if reset {
						_ = c.Conn.(*net.TCPConn).SetLinger(0)
					}
					_ = c.Close()
					left := time.Now()
					eventually(t, "place is free", func() bool {
						s := e.Stats()
						if p.queued {
							return s.Waiting == 0 && s.Aborted == 1
						}
						return s.Running == 0 && s.Aborted == 1
					})
					// the complete response would take minutes
					if d := time.Since(left); d > 10*time.Second {
						t.Errorf("took %v", d)
					}
					want := 0
					if p.queued {
						want = 1
					}
					eventually(t, "connection is gone", func() bool { return e.Stats().Conns == want })
					if s := e.Stats(); s.Completed != 0 || s.Rejected != 0 {
						t.Errorf("stats = %+v, want none completed and none rejected", s)
					}
				})
			}
		}
	}
}

// TestLeavingWithoutReading checks that the engine notices when a client leaves even while a write
// is blocked because the client does not read.
func TestLeavingWithoutReading(t *testing.T) {
	e := start(t, Options{})
	c := dial(t, e)
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"sim":{"tokens":30000}`))
	eventually(t, "writer blocks", func() bool {
		n := e.Stats().Tokens
		time.Sleep(20 * time.Millisecond)
		return n > 0 && n == e.Stats().Tokens
	})
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
	eventually(t, "slot is free", func() bool { return e.Stats().Running == 0 && e.Stats().Aborted == 1 })
}

func TestCancelOnlyStreams(t *testing.T) {
	e := start(t, Options{CancelOnlyStreams: true, Slots: 1})
	for stream, ttft := range map[bool]int{false: 3000, true: 600_000} {
		e.Reset()
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", fmt.Sprintf(`,"stream":%v,"sim":{"tokens":2,"ttft_ms":%d}`, stream, ttft)))
		eventually(t, "runs", func() bool { return e.Stats().Running == 1 })
		begun := time.Now()
		_ = c.Close()
		time.Sleep(50 * time.Millisecond)
		if n := e.Stats().Running; n != 1 && !stream && time.Since(begun) < time.Second {
			t.Errorf("%d run after the client of a plain answer left", n)
		}
		eventually(t, "slot is free", func() bool { return e.Stats().Running == 0 })
		eventually(t, "counted as aborted", func() bool { s := e.Stats(); return s.Aborted == 1 && s.Completed == 0 })
	}
}

// TestPipelining checks that pipelined requests are answered in order, and that the engine still
// notices when the client leaves.
func TestPipelining(t *testing.T) {
	e := start(t, Options{})
	c := dial(t, e)
	one := chatBody("hi", `,"sim":{"tokens":2,"ttft_ms":20}`)
	for range 3 {
		c.post("/v1/chat/completions", one)
	}
	for range 3 {
		if resp, body, err := c.answer(); err != nil || resp.StatusCode != 200 {
			t.Fatal(err, body)
		}
	}
	c.wantSilence()
	c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"ttft_ms":60000}`))
	c.post("/v1/chat/completions", one)
	eventually(t, "runs", func() bool { return e.Stats().Running == 1 })
	_ = c.Close()
	eventually(t, "is gone", func() bool { s := e.Stats(); return s.Running == 0 && s.Aborted == 1 && s.Conns == 0 })
}

func TestUnlistenAndDrop(t *testing.T) {
	e := start(t, Options{})
	addr := e.Addr()
	open := []*client{dial(t, e), dial(t, e), dial(t, e), dial(t, e)}
	for _, c := range open {
		c.send("GET", "/health", "")
		if _, _, err := c.answer(); err != nil {
			t.Fatal(err)
		}
	}
	e.Unlisten()
	if nc, err := net.Dial("tcp", addr); err == nil {
		_ = nc.Close()
		t.Error("connection accepted after Unlisten")
	}
	if n := e.DropConns(0.5, true); n != 2 {
		t.Errorf("DropConns = %d, want 2", n)
	}
	eventually(t, "two are left", func() bool { return e.Stats().Conns == 2 })
	if err := e.Relisten(); err != nil {
		t.Fatal(err)
	}
	if e.Addr() != addr {
		t.Errorf("moved to %s", e.Addr())
	}
	if resp, _ := sendRequest(t, e, "GET", "/health", ""); resp.StatusCode != 200 {
		t.Error(resp.Status)
	}
	e.Close()
	e.Close()
	if err := e.Relisten(); err == nil {
		t.Error("Relisten after Close")
	}
}

// TestManyClients checks that the final counts are correct after many clients have arrived and left
// at random.
func TestManyClients(t *testing.T) {
	for _, profile := range []string{"vllm", "llamacpp"} {
		e := start(t, Options{Profile: profile, Slots: 8, Queue: 40, TokenRate: 2000, Latency: time.Millisecond})
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				c := dial(t, e)
				for j := range 8 {
					n := (i*31 + j*17) % 10
					c.post("/v1/chat/completions", chatBody("hello there", fmt.Sprintf(`,"stream":%v,"sim":{"tokens":%d}`, n%2 == 0, 4+n*3)))
					if n == 9 {
						time.Sleep(time.Duration(i%5) * time.Millisecond)
						_ = c.Close()
						return
					}
					resp, _, err := c.answer()
					if err != nil {
						t.Error(err)
						return
					}
					if resp.Close { // llama.cpp refused the request
						_ = c.Close()
						c = dial(t, e)
					}
				}
				_ = c.Close()
			})
		}
		wg.Wait()
		eventually(t, "all are gone", func() bool { return e.Stats().Conns == 0 })
		s := e.Stats()
		if s.Running != 0 || s.Waiting != 0 || s.Peak > 8 || s.Completed+s.Aborted+s.Rejected != s.Requests || s.Aborted == 0 || s.Completed == 0 {
			t.Errorf("%s: stats = %+v, want none running, at most 8 at once, and every request counted", profile, s)
		}
		if used, _ := e.slots.UsedTokensAndSlots(); used != 0 {
			t.Errorf("%s: room used %d", profile, used)
		}
	}
}
