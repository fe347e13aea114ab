package sim

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// prompt397 results in 104 tokens: six full blocks of 16 tokens, and a partial block.
var prompt397 = strings.Repeat("a", 397)

// timeRequest sends one request on a separate connection and sends the time that the response took
// to the channel took.
func timeRequest(t *testing.T, e *Engine, body string, took chan<- time.Duration) {
	c := dialPipe(t, e)
	begin := time.Now()
	c.post("/v1/chat/completions", body)
	go func() {
		_, _, err := c.answer()
		if err != nil {
			t.Error(err)
		}
		_ = c.Close()
		took <- time.Since(begin)
	}()
	synctest.Wait()
}

func TestBatchCostsTime(t *testing.T) {
	for _, stream := range []string{`,"stream":true`, ""} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{TokenRate: 100, BatchCost: 5 * time.Millisecond, KeepAlive: -1})
			defer e.Close()
			took := make(chan time.Duration, 4)
			for range 3 {
				timeRequest(t, e, chatBody("hi", stream+`,"sim":{"tokens":41}`), took)
			}
			for range 3 { // 40 gaps of 10 ms + 2 × 5 ms; an unstreamed response checks its batch every 20 ms
				if d := <-took; d < 770*time.Millisecond || d > 801*time.Millisecond {
					t.Errorf("stream %q: three side by side took %v, want 800ms", stream, d)
				}
			}
			timeRequest(t, e, chatBody("hi", stream+`,"sim":{"tokens":41}`), took)
			if d := <-took; d.Round(time.Millisecond) != 400*time.Millisecond {
				t.Errorf("stream %q: alone it took %v", stream, d)
			}
		})
	}
}

func TestSharedPrefillIsOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{PrefillRate: 1000, SharedPrefill: true, CacheTokens: -1, KeepAlive: -1})
		defer e.Close()
		took := make(chan time.Duration, 4)
		gone := dialPipe(t, e)
		for i := range 3 {
			if i == 1 { // this client leaves after 50 ms, and the rest of its prefill time remains unused
				gone.post("/v1/chat/completions", chatBody(prompt397, `,"sim":{"tokens":1}`))
				synctest.Wait()
				continue
			}
			timeRequest(t, e, chatBody(prompt397, `,"sim":{"tokens":1}`), took)
		}
		time.Sleep(50 * time.Millisecond)
		_ = gone.Close()
		synctest.Wait()
		if d := <-took; d.Round(time.Millisecond) != 104*time.Millisecond {
			t.Errorf("the first took %v", d)
		}
		if d := <-took; d.Round(time.Millisecond) != 312*time.Millisecond {
			t.Errorf("the third took %v: who is in line keeps the time", d)
		}
		timeRequest(t, e, chatBody(prompt397, `,"sim":{"tokens":1}`), took)
		if d := <-took; d.Round(time.Millisecond) != 104*time.Millisecond {
			t.Errorf("a later one took %v", d)
		}
	})
}

func TestPreemption(t *testing.T) {
	for _, stream := range []string{`,"stream":true`, ""} {
		synctest.Test(t, func(t *testing.T) {
			// Each of the two requests has a prompt of 104 tokens and a response of 60 tokens.
			// Together, they need room for 328 tokens, but there is room for only 260.
			e := New(Options{PrefillRate: 10000, TokenRate: 100, KVTokens: 260, CacheTokens: -1, KeepAlive: -1})
			defer e.Close()
			took := make(chan time.Duration, 2)
			timeRequest(t, e, chatBody(prompt397, stream+`,"sim":{"tokens":60}`), took)
			timeRequest(t, e, chatBody(prompt397, stream+`,"sim":{"tokens":60}`), took)
			first, second := <-took, <-took
			if first > 610*time.Millisecond {
				t.Errorf("stream %q: the older one took %v: it must not be touched", stream, first)
			}
			if second < first+250*time.Millisecond || second > 1200*time.Millisecond {
				t.Errorf("stream %q: the younger one took %v", stream, second)
			}
			synctest.Wait()
			used, _ := e.slots.UsedTokensAndSlots()
			if s := e.Stats(); s.Preempted != 1 || s.Completed != 2 || s.Tokens != 120 || used != 0 || s.Running != 0 {
				t.Errorf("stream %q: stats %+v, room %d", stream, s, used)
			}
		})
	}
}

func TestPreemptedClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{TokenRate: 100, KVTokens: 260, KeepAlive: -1})
		defer e.Close()
		took := make(chan time.Duration, 2)
		timeRequest(t, e, chatBody(prompt397, `,"stream":true,"sim":{"tokens":100}`), took)
		c := dialPipe(t, e)
		c.post("/v1/chat/completions", chatBody(strings.Repeat("b", 397), `,"stream":true,"sim":{"tokens":100}`))
		go func() { _, _, _ = c.answer() }()
		time.Sleep(600 * time.Millisecond)
		if s := e.Stats(); s.Preempted != 1 || s.Waiting != 1 {
			t.Errorf("stats = %+v, want 1 preempted and 1 waiting", s)
		}
		_ = c.Close()
		<-took
		synctest.Wait()
		used, _ := e.slots.UsedTokensAndSlots()
		if s := e.Stats(); s.Aborted != 1 || s.Waiting != 0 || used != 0 {
			t.Errorf("stats %+v, room %d", s, used)
		}
	})
}

func TestEventsHappen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := New(Options{Listen: "127.0.0.1:0", TokenRate: 100, KeepAlive: -1})
		defer e.Close()
		took := make(chan time.Duration, 1)
		for _, stream := range []string{`,"stream":true`, ""} {
			timeRequest(t, e, chatBody("hi", stream+`,"sim":{"tokens":101}`), took)
			time.Sleep(500 * time.Millisecond)
			stall, err := ParseAction("stall=1s")
			if err != nil {
				t.Fatal(err)
			}
			e.PerformAction(stall)
			// An unstreamed response notices the stall within 20 ms.
			if d := <-took; d < 1970*time.Millisecond || d > 2080*time.Millisecond {
				t.Errorf("stream %q: with a stall of 1 s it took %v", stream, d)
			}
		}
		slow, err := ParseAction("slow=10")
		if err != nil {
			t.Fatal(err)
		}
		e.PerformAction(slow)
		timeRequest(t, e, chatBody("hi", `,"stream":true,"sim":{"tokens":11}`), took)
		if d := <-took; d.Round(time.Millisecond) != time.Second {
			t.Errorf("ten times slower it took %v", d)
		}
		e.Reset()
		timeRequest(t, e, chatBody("hi", `,"stream":true,"sim":{"tokens":11}`), took)
		if d := <-took; d.Round(time.Millisecond) != 100*time.Millisecond {
			t.Errorf("after the reset it took %v", d)
		}
	})
}

func TestJitterKeepsTheMeanAndFollowsTheSeed(t *testing.T) {
	var all []time.Duration
	for _, seed := range []uint64{1, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			e := New(Options{TokenRate: 100, Jitter: 0.5, Seed: seed, KeepAlive: -1})
			defer e.Close()
			took := make(chan time.Duration, 1)
			timeRequest(t, e, chatBody("hi", `,"stream":true,"sim":{"tokens":1001}`), took)
			d := <-took
			if d < 9700*time.Millisecond || d > 10300*time.Millisecond {
				t.Errorf("1,000 gaps of 10 ms ± half took %v", d)
			}
			all = append(all, d)
		})
	}
	if all[0] != all[1] || all[0] == all[2] {
		t.Errorf("times %v: want the first two the same and the third another", all)
	}
}

func TestEventsOfOptionsCrashAndRestart(t *testing.T) {
	c := CLI{Listen: "127.0.0.1:0", Profile: "vllm", Drill: "crash", At: []string{"1ms:sick"}}
	o, err := c.options()
	if err != nil {
		t.Fatal(err)
	}
	for i := range o.Events { // the configured events would take 20 s
		o.Events[i].At /= 100
	}
	e := start(t, o)
	eventually(t, "health says that it is sick", func() bool {
		return e.unhealthy.Load()
	})
	eventually(t, "the listener is gone", func() bool {
		e.server.mu.Lock()
		defer e.server.mu.Unlock()
		return e.server.ln == nil
	})
	eventually(t, "it is back", func() bool {
		e.server.mu.Lock()
		defer e.server.mu.Unlock()
		return e.server.ln != nil
	})
	if resp, body := sendChat(t, e, chatBody("hi", "")); resp.StatusCode != 200 {
		t.Errorf("after the restart: %d %s", resp.StatusCode, body)
	}
	if resp, body := sendRequest(t, e, "POST", "/sim/event", `{"do":"slots=3"}`); resp.StatusCode != 200 {
		t.Errorf("event: %d %s, want 200", resp.StatusCode, body)
	}
	eventually(t, "three slots", func() bool { _, n := e.slots.UsedTokensAndSlots(); return n == 3 })
	if resp, _ := sendRequest(t, e, "POST", "/sim/event", `{"do":"explode"}`); resp.StatusCode != 400 {
		t.Errorf("unknown event: %d", resp.StatusCode)
	}
}

func TestEventsAreChecked(t *testing.T) {
	for _, s := range []string{
		"", "stall=1s", "1s:", "1s:stall", "1s:stall=-1s", "-1s:sick", "x:sick", "1s:slow=0", "1s:slow=NaN", "1s:slots=-1",
		"1s:fault=nope", "1s:drop=2", "1s:crash=1", "1s:sick=no", "1s:boom",
	} {
		if ev, err := ParseEvent(s); err == nil {
			t.Errorf("%q is read as %v", s, ev)
		}
	}
	for _, d := range Drills() {
		evs, err := DrillEvents(d.Name, 16)
		if err != nil || len(evs) == 0 {
			t.Errorf("drill %s = %v, %v; want events", d.Name, evs, err)
		}
	}
	if _, err := DrillEvents("nope", 1); err == nil {
		t.Error("an unknown drill is accepted")
	}
	var o Options
	if err := o.SetSpeed("nope"); err == nil {
		t.Error("an unknown speed is accepted")
	}
	o = Options{Slots: 3}
	if err := o.SetSpeed("laptop"); err != nil || o.Slots != 3 || o.TokenRate != 20 || !o.SharedPrefill {
		t.Errorf("laptop = %+v, %v; want 3 slots, 20 tokens a second and a shared prefill", o, err)
	}
	for _, c := range []CLI{{Drill: "nope"}, {At: []string{"nope"}}, {Speed: "nope"}} {
		if err := c.run(context.Background(), new(bytes.Buffer)); err == nil {
			t.Errorf("%+v runs, want an error", c)
		}
	}
	var out bytes.Buffer
	if err := (&CLI{Events: true}).run(context.Background(), &out); err != nil || !strings.Contains(out.String(), "brownout") || !strings.Contains(out.String(), "h100-8b") {
		t.Errorf("--events = %s, %v; want brownout and h100-8b", out.String(), err)
	}
}

func FuzzParseEvent(f *testing.F) {
	for _, s := range []string{"30s:stall=1s", "1s:slow=2.5", "0s:slots=4", "1m:fault=status=503;retry-after=2", "2s:drop=0.5", "1s:crash", "9s:restart", "1s:", ":", "1h:slow=NaN"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ev, err := ParseEvent(s)
		if err != nil {
			return
		}
		again, err := ParseEvent(ev.At.String() + ":" + ev.Do.String())
		if err != nil || again.At != ev.At || again.Do.String() != ev.Do.String() {
			t.Fatalf("%q became %v, read again %v, %v", s, ev.Do, again.Do, err)
		}
	})
}
