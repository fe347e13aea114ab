package e2e

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestResidents sends random calls for three models to an engine that keeps only one model in
// memory. If the engine unloads a model, it aborts the calls to this model. No call may be lost,
// and at most one in four calls may load a model.
func TestResidents(t *testing.T) {
	t.Parallel()
	const profile = "llamacpp-router"
	config := "timeouts: { linger: 0s }\nretry: { attempts: 1 }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n" +
		"  - { name: a, url: \"{{up-0}}\", engine: " + profile + ", concurrency: 4, residents: 1 }\nmodels:\n"
	for _, id := range []string{"x", "y", "z"} {
		config += "  - { id: " + id + ", deployments: [{ upstream: a }], queue: { depth: 40, wait: 60s } }\n"
	}
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: profile, Models: []string{"x", "y", "z"}, Residents: 1, TokenRate: 400}}, Config: config,
	})
	const callers, each = 12, 10
	var all sync.WaitGroup
	for i := range callers {
		random := rand.New(rand.NewPCG(uint64(i), 7))
		all.Go(func() {
			for range each {
				body := rig.ChatBody([]string{"x", "y", "z"}[random.IntN(3)], fmt.Sprintf(`"max_tokens":%d,"stream":true`, 2+random.IntN(20)))
				if r := p.Post(chatPath, body).WantStatus(200); !strings.Contains(r.Body, "[DONE]") || strings.Contains(r.Body, `"error"`) {
					t.Errorf("a call is lost: %q", r.Body)
				}
			}
		})
	}
	all.Wait()
	if loads := p.Engines[0].Stats().Loads; loads < 3 || loads > callers*each/4 {
		t.Errorf("%d loads for %d calls", loads, callers*each)
	} else {
		t.Logf("%d loads for %d calls", loads, callers*each)
	}
}

// TestColdLoadOutlastsFirstEvent checks that the timeout for the first event starts only after the
// engine has loaded the model.
func TestColdLoadOutlastsFirstEvent(t *testing.T) {
	t.Parallel()
	for name, turns := range map[string]string{"turns": ", residents: 1", "list": ""} {
		for _, members := range []string{`"stream":true,`, ""} {
			t.Run(name+members, func(t *testing.T) {
				t.Parallel()
				const profile = "llamacpp-router"
				p := start(t, rig.Setup{
					Engines: []sim.Options{{Profile: profile, Models: []string{"x"}, Residents: 1}},
					Config: "timeouts: { linger: 0s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n" +
						"  - { name: a, url: \"{{up-0}}\", engine: " + profile + ", probe: { timeout: 15s, interval: 1h }" + turns + " }\n" +
						"models:\n  - { id: x, deployments: [{ upstream: a }], timeouts: { first_event: 1s, answer: 1s } }\n",
				})
				ask := func() *rig.Reply {
					return p.Post(chatPath, rig.ChatBody("x", members+`"max_tokens":3,"sim":{"ttft_ms":3000}`))
				}
				if r := ask().WantStatus(200); strings.Contains(r.Body, `"error"`) {
					t.Errorf("behind a load: %s", r.Body)
				}
				ask().WantStatus(504)
			})
		}
	}
}

// TestTurnInCatalog checks that the catalog shows no free slots for a model during another model's
// turn.
func TestTurnInCatalog(t *testing.T) {
	t.Parallel()
	const profile = "llamacpp-router"
	p := start(t, rig.Setup{
		Engines: []sim.Options{{Profile: profile, Models: []string{"x", "y"}, Residents: 1}},
		Config: "timeouts: { linger: 0s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n" +
			"  - { name: a, url: \"{{up-0}}\", engine: " + profile + ", concurrency: 4, residents: 1, probe: { timeout: 15s } }\n" +
			"models: [{ id: x, deployments: [{ upstream: a }] }, { id: y, deployments: [{ upstream: a }] }]\n",
	})
	available := func() (x, y int) {
		for _, m := range p.Catalog() {
			if m.ID == "x" {
				x = m.Capacity.Available
			} else {
				y = m.Capacity.Available
			}
		}
		return x, y
	}
	held := p.OpenStream(chatPath, rig.ChatBody("x", `"stream":true,"max_tokens":500,"sim":{"tokens":400,"delay_ms":200}`))
	held.Next()
	rig.WaitFor(t, rig.WaitTimeout, "the catalog shows the call", func() bool { x, _ := available(); return x == 3 })
	if _, y := available(); y != 0 {
		t.Errorf("the catalog says that %d calls of the other model may come", y)
	}
	p.Post(chatPath, rig.ChatBody("y", "")).WantStatus(429)
	held.Disconnect()
	rig.WaitFor(t, rig.WaitTimeout, "the place is free", func() bool { _, y := available(); return y == 4 })
}

// TestSleepingEngine checks that a sleeping vLLM receives no calls even though its health check
// succeeds, and that the first call for its model wakes it.
func TestSleepingEngine(t *testing.T) {
	t.Parallel()
	engine := rig.StartEngine(t, sim.Options{Profile: "vllm"})
	p := start(t, rig.Setup{
		Config: fmt.Sprintf("timeouts: { linger: 0s }\nkeys: [{ id: tester, hash: \"{{hash}}\" }]\nupstreams:\n"+
			"  - { name: a, url: %q, engine: vllm, probe: { interval: 200ms }, wake: { url: %q } }\n"+
			"models:\n  - { id: sim, deployments: [{ upstream: a }], queue: { depth: 9, wait: 60s } }\n", engine.URL(), engine.URL()+"/wake_up"),
	})
	for range 2 { // the second sleep follows a wake-up
		p.Fetch("POST", engine.URL()+"/sleep?level=1").WantStatus(200)
		p.wantDown()
		begun := time.Now()
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() { p.Post(chatPath, p.ChatRequest("")).WantStatus(200) })
		}
		calls.Wait()
		t.Logf("awake after %v", time.Since(begun))
	}
	if n := p.Metric("penstock_upstream_wakes_total", `result="asked"`); n != 2 {
		t.Errorf("%v requests woke it", n)
	}
}
