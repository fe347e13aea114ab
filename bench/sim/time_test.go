package sim

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// dialPipe connects to an engine without a socket, so that the test can use a synctest clock.
func dialPipe(t testing.TB, e *Engine) *client {
	ours, theirs := net.Pipe()
	e.ServeConn(theirs)
	return wrap(t, ours)
}

// arrivals reads a stream and records when each event arrived.
func arrivals(t testing.TB, c *client) (data []string, at []time.Duration) {
	t.Helper()
	begin := time.Now()
	resp, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, at = append(data, "head"), append(at, time.Since(begin))
	buf := make([]byte, 64<<10)
	for {
		n, err := resp.Body.Read(buf)
		for _, e := range events(string(buf[:n])) {
			data, at = append(data, e), append(at, time.Since(begin))
		}
		if err != nil {
			return data, at
		}
	}
}

func TestTimeOfStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{PrefillRate: 1000, TokenRate: 20, Latency: 100 * time.Millisecond, KeepAlive: -1})
		defer e.Close()
		c := dialPipe(t, e)
		// 397 bytes of text and "user\n" make 101 tokens, or 104 with the template.
		c.post("/v1/chat/completions", chatBody(strings.Repeat("a", 397), `,"stream":true,"max_tokens":4`))
		data, at := arrivals(t, c)
		want := []time.Duration{0, 204, 204, 254, 304, 354, 354, 354} // head, role, 4 tokens, finish, [DONE]
		if len(at) != len(want) {
			t.Fatalf("%d events: %q; want %d", len(at), data, len(want))
		}
		for i := range want {
			if d := at[i] - want[i]*time.Millisecond; d < 0 || d > time.Millisecond {
				t.Errorf("event %d at %v, want %vms", i, at[i], want[i])
			}
		}
		_ = c.Close()
		synctest.Wait()
	})
}

func TestTimeOfPlainAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{PrefillRate: 1000, TokenRate: 10})
		defer e.Close()
		c := dialPipe(t, e)
		begin := time.Now()
		c.post("/v1/chat/completions", chatBody(strings.Repeat("a", 397), `,"max_tokens":5`))
		if _, _, err := c.answer(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin).Round(time.Millisecond); d != 504*time.Millisecond {
			t.Errorf("the answer took %v, want 504 ms", d)
		}
		// Six blocks of 16 tokens are cached, so 8 of 104 tokens are read.
		begin = time.Now()
		c.post("/v1/chat/completions", chatBody(strings.Repeat("a", 397), `,"max_tokens":5`))
		_, body, err := c.answer()
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin).Round(time.Millisecond); d != 408*time.Millisecond {
			t.Errorf("with cache it took %v", d)
		}
		if got := plainOf(t, body).Usage; got.PromptD.Cached != 96 || got.Prompt != 104 || got.Total != 109 {
			t.Errorf("usage = %+v, want 104 prompt tokens, 96 of them cached, and 109 in all", got)
		}
		_ = c.Close()
		synctest.Wait()
	})
}

func TestTimeControls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{PrefillRate: 1, TokenRate: 1, KeepAlive: -1})
		defer e.Close()
		for _, how := range []func(c *client){
			func(c *client) {
				c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"tokens":3,"ttft_ms":70,"delay_ms":10}`))
			},
			func(c *client) {
				c.post("/v1/chat/completions", chatBody("hi", ``), "X-Sim-Tokens: 3", "x-sim-ttft: 70ms", "X-SIM-DELAY: 10")
			},
			func(c *client) {
				c.post("/v1/chat/completions", chatBody(`hi [[sim {"tokens":3,"ttft_ms":70,"delay_ms":10}]] there`, ``))
			},
		} {
			c := dialPipe(t, e)
			begin := time.Now()
			how(c)
			_, body, err := c.answer()
			if err != nil {
				t.Fatal(err)
			}
			if d := time.Since(begin).Round(time.Millisecond); d != 90*time.Millisecond {
				t.Errorf("the answer took %v, want 90 ms: %s", d, body)
			}
			if got := plainOf(t, body); got.Usage.Completion != 3 || got.Finish[0] != "stop" {
				t.Errorf("answer = %s, want 3 tokens and the finish stop", body)
			}
			_ = c.Close()
		}
		synctest.Wait()
	})
}

func TestSlotsAreFairAndBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Slots: 2, Queue: 3, TokenRate: 10, KeepAlive: -1})
		defer e.Close()
		ends := make(chan int, 10)
		begin := time.Now()
		// Ten tokens take one second. The last token is sent after 900 ms.
		for i := range 6 {
			c := dialPipe(t, e)
			c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"tokens":10,"ttft_ms":100}`))
			synctest.Wait()
			go func() {
				resp, _, err := c.answer()
				if err != nil {
					t.Error(err)
					return
				}
				if (resp.StatusCode == 503) != (i == 5) {
					t.Errorf("request %d: status %d", i, resp.StatusCode)
				}
				_ = c.Close()
				ends <- i
			}()
		}
		synctest.Wait()
		if s := e.Stats(); s.Running != 2 || s.Waiting != 3 || s.Rejected != 1 || s.Peak != 2 {
			t.Errorf("stats = %+v, want 2 running, 3 waiting and 1 rejected", s)
		}
		var order []int
		for range 6 {
			order = append(order, <-ends)
		}
		if d := time.Since(begin).Round(time.Millisecond); d != 3*time.Second {
			t.Errorf("all took %v", d)
		}
		if order[0] != 5 || max(order[1], order[2]) != 1 || max(order[3], order[4]) != 3 || order[5] != 4 {
			t.Errorf("order = %v, want 5, then 0 and 1, then 2 and 3, then 4", order)
		}
		synctest.Wait()
		if s := e.Stats(); s.Running != 0 || s.Waiting != 0 || s.Completed != 5 || s.Conns != 0 {
			t.Errorf("stats = %+v, want 5 completed and none left", s)
		}
	})
}

func TestNothingIsSentWhileQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Slots: 1, TokenRate: 10, KeepAlive: -1})
		defer e.Close()
		first, second := dialPipe(t, e), dialPipe(t, e)
		first.post("/v1/chat/completions", chatBody("hi", `,"sim":{"tokens":21}`))
		synctest.Wait()
		second.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"max_tokens":2`))
		go func() { _, _, _ = first.answer() }()
		_, at := arrivals(t, second)
		if at[0].Round(time.Millisecond) != 2*time.Second {
			t.Errorf("head came after %v", at[0])
		}
		_, _ = first.Close(), second.Close()
		synctest.Wait()
	})
}

func TestPingsAndIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Profile: "llamacpp", Latency: 70 * time.Second})
		defer e.Close()
		c := dialPipe(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"max_tokens":1`))
		_, body, err := c.answer()
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(body, ":\n\n"); n != 2 {
			t.Errorf("%d pings, want 2: %q", n, body)
		}
		begin := time.Now()
		if _, err := c.r.Peek(1); err == nil || time.Since(begin) != 5*time.Second {
			t.Errorf("idle connection: %v after %v", err, time.Since(begin))
		}
		synctest.Wait()
	})
}

func TestKVRoomHoldsTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Slots: 8, KVTokens: 250, TokenRate: 10, KeepAlive: -1})
		defer e.Close()
		for _, letter := range []string{"a", "b", "c"} { // prompts that have no common prefix
			c := dialPipe(t, e)
			c.post("/v1/chat/completions", chatBody(strings.Repeat(letter, 397), `,"stream":true,"sim":{"tokens":10}`))
			synctest.Wait()
			go func() { _, _, _ = c.answer(); _ = c.Close() }()
		}
		synctest.Wait()
		if s := e.Stats(); s.Running != 2 || s.Waiting != 1 {
			t.Errorf("stats = %+v, want 2 running and 1 waiting", s)
		}
		used, _ := e.slots.UsedTokensAndSlots()
		if used != 2*104+2 {
			t.Errorf("room used %d", used)
		}
		time.Sleep(10 * time.Second)
		used, _ = e.slots.UsedTokensAndSlots()
		if s := e.Stats(); s.Completed != 3 || used != 0 {
			t.Errorf("stats %+v, room %d", s, used)
		}
	})
}

// TestTimeOfSilence checks the pages of a silent engine while it is working, and while it is not.
func TestTimeOfSilence(t *testing.T) {
	metric := func(e *Engine, name string) (value string) {
		c := dialPipe(t, e)
		defer c.Close()
		c.send("GET", "/metrics", "")
		_, body, err := c.answer()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, name) {
				value = line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]
			}
		}
		return strings.TrimSpace(value)
	}
	const steps = "vllm:iteration_tokens_total_count{"
	for spec, want := range map[string]struct {
		after  string // number of steps after 25 s
		end    time.Duration
		answer string // last part of the response
	}{
		"long-prefill=60s;chunks=6": {"2", 60 * time.Second, `"content":"`},
		"long-prefill=60s":          {"0", 60 * time.Second, `"content":"`},
		"buffered-call=60s":         {"502", 60 * time.Second, `"arguments":"{`},
		"wedge=60s":                 {"0", 60 * time.Second, `"content":"`},
	} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{KeepAlive: -1})
			defer e.Close()
			more := `,"stream":true,"sim":{"fault":"` + spec + `"}`
			if strings.HasPrefix(spec, "buffered-call") {
				more += `,"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}}}]`
			}
			c := dialPipe(t, e)
			c.post("/v1/chat/completions", chatBody("hi", more))
			time.AfterFunc(25*time.Second+25*time.Millisecond, func() {
				if got := metric(e, steps); got != want.after {
					t.Errorf("%s: %s steps after 25 s, want %s", spec, got, want.after)
				}
			})
			data, at := arrivals(t, c)
			last := at[len(at)-1].Round(time.Second)
			if all := strings.Join(data, "\n"); last != want.end || !strings.Contains(all, want.answer) {
				t.Errorf("%s: it ends after %v, want %v: %q", spec, last, want.end, data)
			}
			_ = c.Close()
			synctest.Wait()
		})
	}
}

// TestWedge checks that a reset ends the wedge, and that the pages respond during the wedge.
func TestWedge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{KeepAlive: -1})
		defer e.Close()
		begin := time.Now()
		e.SetFault(Fault{Spec: "wedge", Count: 1})
		c, page := dialPipe(t, e), dialPipe(t, e)
		c.post("/v1/chat/completions", chatBody("hi", ""))
		time.Sleep(time.Minute)
		page.send("GET", "/health", "")
		if resp, _, err := page.answer(); err != nil || resp.StatusCode != 200 || time.Since(begin) > 61*time.Second {
			t.Error(resp, err)
		}
		e.Reset()
		if resp, _, err := c.answer(); err != nil || resp.StatusCode != 200 || time.Since(begin) > 61*time.Second {
			t.Error(resp, err, time.Since(begin))
		}
		_, _ = c.Close(), page.Close()
		synctest.Wait()
	})
}

// TestBusyHealth checks that an engine with the fault busy-health answers its pages only while no
// request runs.
func TestBusyHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{KeepAlive: -1, Latency: 20 * time.Second})
		defer e.Close()
		e.SetFault(Fault{Spec: "busy-health"})
		work, page := dialPipe(t, e), dialPipe(t, e)
		begin := time.Now()
		work.post("/v1/chat/completions", chatBody("hi", `,"max_tokens":1`))
		synctest.Wait()
		page.send("GET", "/health", "")
		if _, _, err := page.answer(); err != nil || time.Since(begin).Round(time.Second) != 20*time.Second {
			t.Error(err, time.Since(begin))
		}
		if _, _, err := work.answer(); err != nil {
			t.Error(err)
		}
		_, _ = work.Close(), page.Close()
	})
}

func TestSlowHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{KeepAlive: -1})
		defer e.Close()
		e.SetFault(Fault{Spec: "slow-health"})
		for path, want := range map[string]time.Duration{"/health": 3 * time.Second, "/metrics": 3 * time.Second, "/v1/chat/completions": 0} {
			begin, c := time.Now(), dialPipe(t, e)
			if want == 0 {
				c.post(path, chatBody("hi", ""))
			} else {
				c.send("GET", path, "")
			}
			if _, _, err := c.answer(); err != nil || time.Since(begin).Round(time.Second) != want {
				t.Error(path, err, time.Since(begin))
			}
			_ = c.Close()
		}
		synctest.Wait()
	})
}

func TestLostAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{KeepAlive: -1})
		defer e.Close()
		c := dialPipe(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"sim":{"fault":"lost-after=2"}`))
		go func() { _, _ = io.Copy(io.Discard, c.r) }()
		time.Sleep(time.Minute)
		if s := e.Stats(); s.Running != 0 || s.Conns != 1 || s.Aborted != 0 {
			t.Errorf("stats = %+v, want the connection alone, without a call", s)
		}
		_ = c.Close()
		synctest.Wait()
	})
}
