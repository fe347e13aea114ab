package e2e

import (
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/config/testkit/fastset"
	"penstock/proxy/e2e/rig"
)

// These tests check that streams move to another engine if their engine is drained or stalled.
// (TestResume covers lost engines.)

const resumes = "retry: { resume: 1 }"

// handoverSetup returns a setup with two engines and a short drain time. If without is true, the
// configuration omits the first engine.
func handoverSetup(model string, without bool) rig.Setup {
	config := `
timeouts: { linger: 0s, drain: 1s, connect: 10s }
admin: { token: ` + rig.AdminToken + ` }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: sim, probe: { timeout: 15s } }
  - { name: up-1, url: "{{up-1}}", engine: sim, probe: { timeout: 15s } }
models: [{ id: sim, policy: round_robin, deployments: [{ upstream: up-0 }, { upstream: up-1 }], ` + model + ` }]
`
	if without {
		config = strings.Replace(config, "  - { name: up-0,", "  # {", 1)
		config = strings.Replace(config, "{ upstream: up-0 }, ", "", 1)
	}
	return rig.Setup{Engines: rig.TwoEngines(), Config: config, Forgets: true}
}

func drainFirst(p *penstock) {
	if status := p.mode("up-0", "drain", rig.AdminToken); status != 303 {
		p.T.Errorf("drain = %d, want 303", status)
	}
}

// TestDrainHandsOver checks a stream on an engine that is drained or removed from the file. The
// stream must stay on this engine until the drain time is over, and then continue at another
// engine. The answer and the charge must be the same as for an undisturbed stream.
func TestDrainHandsOver(t *testing.T) {
	t.Parallel()
	for way, leave := range map[string]func(p *penstock){
		"mode":    drainFirst,
		"removed": func(p *penstock) { p.Reload(handoverSetup(resumes, true)) },
	} {
		for dialect, ask := range streamDialects {
			if dialect == "completions" {
				continue
			}
			t.Run(way+"/"+dialect, func(t *testing.T) {
				t.Parallel()
				p := start(t, handoverSetup(resumes, false))
				// Lasts longer than the reload, even on a slow machine.
				const controls = `"tokens":60,"delay_ms":250`
				want, err := ask(t, p, rig.Prompt, controls)
				if err != nil || len(want.text) < 100 {
					t.Fatalf("undisturbed answer = %+v, %v; want 100 bytes or more", want, err)
				}
				p.mode("up-1", "drain", rig.AdminToken)
				before := p.Engines[0].Stats().Tokens
				answered := make(chan assembledAnswer, 1)
				go func() {
					got, err := ask(t, p, rig.Prompt, controls)
					if err != nil {
						t.Error(err)
					}
					answered <- got
				}()
				rig.WaitFor(t, rig.WaitTimeout, "the engine answers", func() bool { return p.Engines[0].Stats().Tokens > before+3 })
				p.mode("up-1", "ready", rig.AdminToken)
				at := time.Now()
				leave(p)
				rig.WaitFor(t, rig.WaitTimeout, "another engine goes on", func() bool { return p.Metric("penstock_streams_resumed_total") == 1 })
				if d := time.Since(at); d < time.Second {
					t.Errorf("the stream left after %v, before the drain time was over", d)
				}
				if got := rig.Receive(t, 2*rig.WaitTimeout, "the stream ends", answered); got != want {
					t.Errorf("%+v; want %+v", got, want)
				}
				if l := p.LastAccessLine(); l.Outcome != "ok" || l.CompletionTokens != 60 || l.Attempts != 2 || l.Resumed != 1 || l.Upstream != "up-1" {
					t.Errorf("the log says %+v", l)
				}
				if n := p.Metric("penstock_retries_total"); n != 0 {
					t.Errorf("%v retries, want 0", n)
				}
			})
		}
	}
}

// TestDrainCutsNothing checks that a stream that no other engine can continue stays on the drained
// engine and succeeds.
func TestDrainCutsNothing(t *testing.T) {
	t.Parallel()
	for name, model := range map[string]string{"not asked for": "retry: { resume: 0 }", "nowhere to go": resumes} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, handoverSetup(model, false))
			p.mode("up-1", "drain", rig.AdminToken)
			s := p.OpenStream("/v1/chat/completions", p.ChatRequest(`"stream":true,"max_tokens":64,"sim":{"tokens":40,"delay_ms":100}`))
			s.Next()
			if name == "not asked for" {
				p.mode("up-1", "ready", rig.AdminToken)
			}
			drainFirst(p)
			last := ""
			for ev, ok := s.Next(); ok; ev, ok = s.Next() {
				last = ev.Data
			}
			if last != "[DONE]" {
				t.Errorf("the stream ends with %s", last)
			}
			rig.WaitFor(t, rig.WaitTimeout, "the call is logged", func() bool { return len(p.AccessLines()) > 0 })
			if l := p.LastAccessLine(); l.Outcome != "ok" || l.Attempts != 1 || l.Upstream != "up-0" {
				t.Errorf("the log says %+v", l)
			}
		})
	}
}

// TestDrainMovesSilentCalls checks that, if a drained engine is silent, a call that has no output
// yet moves to another engine.
func TestDrainMovesSilentCalls(t *testing.T) {
	fastset.SkipIfShort(t, "a call is silent for ten seconds")
	t.Parallel()
	p := start(t, handoverSetup(resumes, false))
	p.Engines[0].SetFault(sim.Fault{Spec: "blackhole", Count: 1})
	p.mode("up-1", "drain", rig.AdminToken)
	answered := make(chan *rig.Reply, 1)
	go func() { answered <- p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true,"sim":{"tokens":5}`)) }()
	rig.WaitFor(t, rig.WaitTimeout, "the engine has the call", func() bool { return p.Engines[0].Stats().Running == 1 })
	p.mode("up-1", "ready", rig.AdminToken)
	drainFirst(p)
	if r := rig.Receive(t, 2*rig.WaitTimeout, "the call is answered", answered); r.Status != 200 || rig.IsErrorEvent(r.Events()[len(r.Events())-1]) {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if n := p.Metric("penstock_calls_moved_total", `reason="drained"`); n != 1 {
		t.Errorf("%v calls were moved", n)
	}
}

// TestStalledStreamContinues checks that a stream whose engine stalls continues at another engine
// if it may be resumed.
func TestStalledStreamContinues(t *testing.T) {
	p := stallRigOf(t, rig.Setup{Model: "policy: round_robin, " + resumes})
	ask := streamDialects["chat"]
	want, err := ask(t, p, rig.Prompt, `"tokens":80`)
	if err != nil || len(want.text) < 100 {
		t.Fatalf("undisturbed answer = %+v, %v; want 100 bytes or more", want, err)
	}
	const calls = 4 // two calls on each engine
	answered := make(chan assembledAnswer, calls)
	before := p.Engines[0].Stats().Tokens
	for range calls {
		go func() {
			got, err := ask(t, p, rig.Prompt, `"tokens":80`)
			if err != nil {
				t.Error(err)
			}
			answered <- got
		}()
	}
	rig.WaitFor(t, stallTime, "both streams of the engine run", func() bool {
		s := p.Engines[0].Stats()
		return s.Running == 2 && s.Tokens > before+6
	})
	stallEngine(p)
	for range calls {
		if got := rig.Receive(t, 2*rig.WaitTimeout, "the streams end", answered); got != want {
			t.Errorf("%+v; want %+v", got, want)
		}
	}
	if n := p.Metric("penstock_streams_resumed_total"); n != 2 {
		t.Errorf("%v streams were resumed", n)
	}
	if s := p.Upstream("up-0").State; s != "stalled" {
		t.Errorf("the engine is %s", s)
	}
	resumeEngine(p)
	rig.WaitFor(t, stallTime, "the engine is back", func() bool { return p.Upstream("up-0").State == "up" })
}
