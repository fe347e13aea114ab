package tiers

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestShadowLeavesHalf checks that copies use less than half of an engine's slots, and that no
// copies are made while a call is waiting for the model.
func TestShadowLeavesHalf(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64}, {Slots: 64}},
		Config: `timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
  - { name: new, url: "{{up-1}}", engine: sim, concurrency: 4, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: old }], shadow: { model: copy, share: 100% } }
  - { id: copy, deployments: [{ upstream: new, served: sim }] }
`,
	})
	for n := range 4 {
		c := p.OpenStream(chatPath, turn(n, 0, endlessMembers))
		defer c.Disconnect()
		c.Next()
		running := min(n+1, 2)
		rig.WaitFor(t, rig.WaitTimeout, "copies run", func() bool { return p.Engines[1].Stats().Running == running })
		waitCopies(t, p, "no_slot", float64(n+1-running))
	}
	own := strings.Replace(turn(9, 0, ""), `"sim"`, `"copy"`, 1)
	p.Post(chatPath, own).WantStatus(200)
}

// TestShadowWithoutMemory checks that no copy is made if there is no memory for a second body, and
// that the call continues.
func TestShadowWithoutMemory(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Config = "limits: { body_memory: 1%, request_body: 9MiB }\n" + s.Config // the body memory is 10 MiB
	p := rig.Start(t, s)
	p.Post(chatPath, turn(0, 0, `,"user":"`+strings.Repeat("x", 6<<20)+`"`)).WantStatus(200)
	waitCopies(t, p, "no_memory", 1)
	p.Post(chatPath, turn(0, 0, "")).WantStatus(200)
	waitCopies(t, p, "ok", 1)
	if n := len(generations(p.Engines[1])); n != 1 {
		t.Errorf("the other engine was sent %d requests", n)
	}
}

// TestShadowIsFree checks that copies do not count towards a key's token budget and usage.
func TestShadowIsFree(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Config = fmt.Sprintf("ledger: { path: %q }\n", filepath.Join(t.TempDir(), "ledger")) +
		strings.Replace(s.Config, `hash: "{{hash}}" }`, `hash: "{{hash}}", limits: { tokens_per_day: 1000 } }`, 1)
	p := rig.Start(t, s)
	used := 0
	for i := range 2 { // if copies counted, the usage would be 1,600 or more
		var a struct {
			Usage struct {
				Total int `json:"total_tokens"`
			}
		}
		r := p.Post(chatPath, turn(i, 0, `,"max_tokens":400,"sim":{"tokens":400}`)).WantStatus(200)
		if err := json.Unmarshal([]byte(r.Body), &a); err != nil {
			t.Fatal(err)
		}
		used += a.Usage.Total
		waitCopies(t, p, "ok", float64(i+1))
	}
	if r := p.Post(chatPath, turn(3, 0, `,"max_tokens":400`)).WantStatus(429); !strings.Contains(r.Body, "quota_exceeded") {
		t.Errorf("the budget refuses with %s", r.Body)
	}
	p.WaitIdle()
	if n := p.Metric("penstock_key_tokens_total", `kind="prompt"`) + p.Metric("penstock_key_tokens_total", `kind="completion"`); n != float64(used) {
		t.Errorf("%v tokens are the key's, of %d", n, used)
	}
}

// TestShadowPrefixAffinity checks that copies of a conversation's turns go to the other model's
// engine that has cached the conversation's prefix.
func TestShadowPrefixAffinity(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64}, {Slots: 64, Record: true}, {Slots: 64, Record: true}, {Slots: 64, Record: true}},
		Config: `timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
  - { name: a, url: "{{up-1}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
  - { name: b, url: "{{up-2}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
  - { name: c, url: "{{up-3}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: old }], shadow: { model: copy, share: 100% } }
  - { id: copy, policy: prefix_affinity, deployments: [{ upstream: a, served: sim }, { upstream: b, served: sim }, { upstream: c, served: sim }] }
`,
	})
	const conversations, turns = 9, 4
	long := strings.Repeat("what was said before counts, ", 60)
	done := 0.0
	for i := range turns {
		for n := range conversations {
			p.Post(chatPath, strings.Replace(turn(n, i, ""), "Be brief.", fmt.Sprint(n, long), 1)).WantStatus(200)
			done++
			waitCopies(t, p, "ok", done)
		}
	}
	used := 0
	for _, e := range p.Engines[1:] {
		of := map[string]int{}
		for _, r := range generations(e) {
			_, rest, _ := strings.Cut(string(r.Body), "conversation ")
			n, _, _ := strings.Cut(rest, `"`)
			of[n]++
		}
		for n, times := range of {
			if times != turns {
				t.Errorf("an engine has seen %d turns of conversation %s", times, n)
			}
		}
		used += min(len(of), 1)
	}
	if used < 2 {
		t.Errorf("%d engines were used: the test proves nothing", used)
	}
}

// TestShadowIsReloadedAway checks what happens if a reload removes the model that receives the
// copies. A running copy must continue until the client disconnects, and later calls must not be
// copied.
func TestShadowIsReloadedAway(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Forgets = true
	p := rig.Start(t, s)
	c := p.OpenStream(chatPath, turn(0, 0, endlessMembers))
	c.Next()
	rig.WaitFor(t, rig.WaitTimeout, "the copy runs", func() bool { return p.Engines[1].Stats().Running == 1 })
	before, _, _ := strings.Cut(s.Config, "  - { name: new")
	s.Config = before + "models: [{ id: sim, deployments: [{ upstream: old }] }]\n"
	p.Reload(s)
	time.Sleep(100 * time.Millisecond) // enough time for the reload to end the copy
	if n := p.Engines[1].Stats().Running; n != 1 {
		t.Errorf("%d copies run after the reload", n)
	}
	p.Post(chatPath, turn(1, 0, "")).WantStatus(200)
	c.Disconnect()
	rig.WaitFor(t, rig.WaitTimeout, "the copy has ended", func() bool { return p.Engines[1].Stats().Running == 0 })
	p.WaitIdle()
	if n := p.Engines[1].Stats().Requests; n != 1 {
		t.Errorf("the other engine was sent %d requests", n)
	}
}

// TestShadowWakesNoEngine checks that a copy does not wake a sleeping engine, for models with and
// without tiers.
func TestShadowWakesNoEngine(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", { upstream: spare, served: sim, tier: 1, when: down }"} {
		t.Run("tiers"+more, func(t *testing.T) {
			t.Parallel()
			var woken atomic.Int32
			script := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { woken.Add(1) }))
			t.Cleanup(script.Close)
			asleep := rig.ReusableAddress()
			p := rig.Start(t, rig.Setup{
				Engines: []sim.Options{{}, {}}, Cold: true,
				Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, probe: { timeout: 15s } }
  - { name: new, url: "http://%s", engine: sim, probe: { interval: 100ms }, wake: { url: %q } }
  - { name: spare, url: "{{up-1}}", engine: sim, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: old }], shadow: { model: copy, share: 100%% } }
  - { id: copy, deployments: [{ upstream: new, served: sim }%s] }
  - { id: direct, deployments: [{ upstream: spare, served: sim }] }
`, asleep, script.URL, more),
			})
			rig.WaitFor(t, rig.WaitTimeout, "two engines are up, and one is down", func() bool {
				return p.Upstream("old").State == "up" && p.Upstream("spare").State == "up" && p.Upstream("new").State == "down"
			})
			p.Post(chatPath, turn(0, 0, "")).WantStatus(200)
			end := "no_slot"
			if more != "" {
				end = "ok"
			}
			waitCopies(t, p, end, 1)
			if n := woken.Load(); n != 0 {
				t.Errorf("%d requests to wake the engine", n)
			}
		})
	}
}
