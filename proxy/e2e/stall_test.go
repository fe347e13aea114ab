package e2e

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// The edge detects a stall after 10 s at the earliest, so these tests wait in parallel.

// stallTime is the maximum time until a stall is detected: 15 s, plus some time for a busy machine.
const stallTime = 15*time.Second + rig.TimingTolerance

// stallRig starts two engines. The test can make the first engine stall. A call at each engine has
// already shown the edge that the engine reports progress.
func stallRig(t *testing.T, more string) *penstock {
	return stallRigOf(t, rig.Setup{Model: "policy: round_robin", Upstream: more})
}

// stallRigOf is like stallRig, but uses the given setup.
func stallRigOf(t *testing.T, setup rig.Setup) *penstock {
	fastset.SkipIfShort(t, "stalls of ten seconds and more")
	t.Parallel()
	setup.Engines, setup.Stream = []sim.Options{{TokenRate: 20}, {TokenRate: 20}}, "commit_after: 1s, keepalive: 1s"
	p := start(t, setup)
	var warm sync.WaitGroup
	for range 4 {
		warm.Go(func() {
			p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"max_tokens":120,"sim":{"tokens":100}`)).WantStatus(200)
		})
	}
	warm.Wait()
	return p
}

// stallEngine makes the first engine stall.
func stallEngine(p *penstock) {
	stop, _ := sim.ParseAction("stall=1h")
	p.Engines[0].PerformAction(stop)
}

// resumeEngine makes the first engine continue.
func resumeEngine(p *penstock) { p.Engines[0].Reset() }

// TestStalledEngine checks an engine that responds to probes but generates no tokens. It must be
// taken out of service in time. No call that another engine can answer may fail. Once the engine
// continues, its running answer must continue, and the engine must return to service.
func TestStalledEngine(t *testing.T) {
	p := stallRig(t, "")
	var calls sync.WaitGroup
	const tokens = `"max_tokens":64,"sim":{"tokens":40}`
	begun := p.OpenStream("/v1/chat/completions", p.ChatRequest(`"stream":true,`+tokens))
	if p.Engines[1].Stats().Running > 0 { // the call went to the other engine
		begun.Disconnect()
		begun = p.OpenStream("/v1/chat/completions", p.ChatRequest(`"stream":true,`+tokens))
	}
	for range 3 {
		if _, ok := begun.Next(); !ok {
			t.Fatal("no answer")
		}
	}
	stallEngine(p)
	at := rig.StartWatch()
	for _, w := range rig.StreamRequestTypes {
		calls.Go(func() {
			if r := p.SendPrompt(w, "hi", `"tokens":40`); r.Status != 200 || rig.IsErrorEvent(r.Events()[len(r.Events())-1]) {
				t.Errorf("%s: answer = %d %s, want 200 without an error", w, r.Status, r.Body)
			}
		})
	}
	for _, w := range rig.UnstreamedRequestTypes {
		calls.Go(func() { p.SendPrompt(w, "hi", `"tokens":40`).WantStatus(200) })
	}
	took := rig.WaitFor(t, stallTime, "the engine is out", func() bool { return p.Upstream("up-0").State == "stalled" })
	t.Logf("out after %v", took.Round(time.Second))
	calls.Wait()
	if d := at.Elapsed(); d > stallTime+15*time.Second+at.MachineDelay() {
		t.Errorf("the calls took %v", d)
	}
	if n := p.Metric("penstock_calls_moved_total", `reason="stalled"`); n == 0 {
		t.Error("no call was moved")
	}
	for range 4 {
		p.Post("/v1/chat/completions", p.ChatRequest(tokens)).WantStatus(200).WantWithin(10 * time.Second)
	}
	if n := p.Metric("penstock_retries_total"); n != 0 {
		t.Errorf("%v retries: moves are apart from them", n)
	}
	resumeEngine(p)
	for ev, ok := begun.Next(); ok; ev, ok = begun.Next() {
		if rig.IsErrorEvent(ev) {
			t.Errorf("the answer that had begun: %s", ev.Data)
		}
	}
	rig.WaitFor(t, 10*time.Second, "the engine is back", func() bool { return p.Upstream("up-0").State == "up" })
}

// TestLastEngineStays checks that a stall does not remove the only engine from a route.
func TestLastEngineStays(t *testing.T) {
	p := stallRig(t, "")
	p.Engines[1].Unlisten()
	p.Engines[1].DropConns(1, true)
	rig.WaitFor(t, stallTime, "the other engine is down", func() bool { return p.Upstream("up-1").State == "down" })
	stallEngine(p)
	done := make(chan *rig.Reply, 1)
	go func() { done <- p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"sim":{"tokens":5}`)) }()
	for end := time.Now().Add(stallTime); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if u := p.Upstream("up-0"); u.State != "up" || u.Breaker != "closed" {
			t.Fatalf("up-0 = %+v, want up with a closed breaker", u)
		}
	}
	resumeEngine(p)
	if r := rig.Receive(t, 2*rig.WaitTimeout, "the call is answered", done); r.Status != 200 || strings.Contains(r.Body, `"error"`) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestSilentAndWorking checks that engines that work silently stay in service. They are silent for
// longer than an engine that makes no progress may be. If PENSTOCK_FULL=1 is set, they are silent
// for 150 s and 100 s.
func TestSilentAndWorking(t *testing.T) {
	prefill, buffered, prompt := 30*time.Second, 30*time.Second, rig.Prompt
	if os.Getenv("PENSTOCK_FULL") != "" {
		prefill, buffered, prompt = 150*time.Second, 100*time.Second, strings.Repeat("word ", 20_000)
	}
	for fault, more := range map[string]string{
		fmt.Sprintf("long-prefill=%v;chunks=5", prefill): "",
		fmt.Sprintf("buffered-call=%v", buffered):        `"tool_choice":"required","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object","properties":{"a":{"type":"string"}}}}}],`,
	} {
		t.Run(fault, func(t *testing.T) {
			p := stallRig(t, "")
			var calls sync.WaitGroup
			for i := range 6 {
				calls.Go(func() {
					body := p.ChatRequest(more + fmt.Sprintf(`"stream":%v,"sim":{"fault":%q}`, i%2 == 0, fault))
					body = strings.Replace(body, rig.Prompt, prompt, 1)
					if i%2 != 0 && strings.HasPrefix(fault, "buffered") {
						return // this fault affects only streams
					}
					if r := p.Post("/v1/chat/completions", body).WantStatus(200); strings.Contains(r.Body, `"error"`) {
						t.Errorf("answer = %s, want no error", r.Body)
					}
				})
			}
			silent := prefill
			if more != "" {
				silent = buffered
			}
			for end := time.Now().Add(silent - 2*time.Second); time.Now().Before(end); time.Sleep(time.Second) {
				for _, name := range []string{"up-0", "up-1"} {
					if u := p.Upstream(name); u.State != "up" || u.Breaker != "closed" {
						t.Fatalf("%s = %+v, want up with a closed breaker", name, u)
					}
				}
			}
			calls.Wait()
			if n := p.Metric("penstock_calls_moved_total", `reason="stalled"`); n != 0 {
				t.Errorf("%v calls were moved", n)
			}
		})
	}
}

// TestLostCall checks that a call ends if its engine has lost it, even if the engine is still
// working on other calls.
func TestLostCall(t *testing.T) {
	p := stallRig(t, "")
	var busy sync.WaitGroup
	for range 6 {
		busy.Go(func() {
			p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"max_tokens":900,"sim":{"tokens":800}`)).WantStatus(200)
		})
	}
	rig.WaitFor(t, stallTime, "the engines are busy", func() bool {
		return p.Engines[0].Stats().Running == 3 && p.Engines[1].Stats().Running == 3
	})
	at := rig.StartWatch()
	r := p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"sim":{"fault":"lost-after=3"}`)).WantStatus(200)
	if d := at.Elapsed(); !strings.Contains(r.Body, "generation_timeout") || d < 10*time.Second || d > stallTime+5*time.Second+at.MachineDelay() {
		t.Errorf("after %v: %s", d, r.Body)
	}
	busy.Wait()
}

// TestSlowHealth checks that an engine whose health check times out stays in service while it sends
// its answers.
func TestSlowHealth(t *testing.T) {
	p := stallRig(t, "concurrency: 64, probe: { timeout: 1s }")
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"max_tokens":400,"sim":{"tokens":300}`)).WantStatus(200)
		})
	}
	answers := func() bool { return p.Engines[0].Stats().Running > 0 }
	rig.WaitFor(t, rig.WaitTimeout, "it answers", answers)
	p.Engines[0].SetFault(sim.Fault{Spec: "slow-health"})
	for range 12 {
		time.Sleep(time.Second)
		if u := p.Upstream("up-0"); u.State != "up" && answers() {
			t.Fatalf("%+v", u)
		}
	}
	calls.Wait()
}
