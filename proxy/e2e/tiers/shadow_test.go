package tiers

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// shadowSetup returns a setup whose model "sim" sends copies of a share of its calls to the model
// "copy" at another engine. more contains members of "copy".
func shadowSetup(share, more string) rig.Setup {
	return rig.Setup{
		Engines: []sim.Options{{Slots: 64, Record: true}, {Slots: 64, Record: true}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, concurrency: 8, probe: { interval: 200ms, timeout: 15s } }
  - { name: new, url: "{{up-1}}", engine: sim, concurrency: 1, probe: { interval: 200ms, timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: old }], shadow: { model: copy, share: %s } }
  - { id: copy, deployments: [{ upstream: new, served: sim }]%s }
`, share, more),
	}
}

// copies returns how many copies of calls for "sim" ended with the given result.
func copies(p *rig.LocalEdge, end string) float64 {
	return p.Metric("penstock_shadow_calls_total", `model="sim"`, `result="`+end+`"`)
}

// waitCopies waits until n copies have ended with the given result.
func waitCopies(t *testing.T, p *rig.LocalEdge, end string, n float64) {
	t.Helper()
	rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("%v copies are %s", n, end), func() bool { return copies(p, end) == n })
}

// generations returns the generation requests that an engine has received, newest last.
func generations(e *sim.Engine) (all []sim.Request) {
	for _, r := range e.Recorded() {
		if r.Method == http.MethodPost {
			all = append(all, r)
		}
	}
	return all
}

// TestShadow checks that, in every dialect, the second engine receives the same request as the
// model's engine, and that the second engine's answer is counted. Neither the client nor the key
// may be affected.
func TestShadow(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, shadowSetup("100%", ""))
	for i, way := range rig.TextRequestTypes {
		p.SendPrompt(way, rig.Prompt, `"tokens":20`).WantStatus(200)
		waitCopies(t, p, "ok", float64(i+1))
		p.WaitIdle()
		sent, copied := generations(p.Engines[0]), generations(p.Engines[1])
		if len(sent) != i+1 || len(copied) != i+1 {
			t.Fatalf("%s: %d requests and %d copies", way, len(sent), len(copied))
		}
		if a, b := sent[i], copied[i]; string(a.Body) != string(b.Body) || a.Target != b.Target || a.Get("X-Request-Id") != b.Get("X-Request-Id") {
			t.Errorf("%s: the engines were sent\n%s %s\n%s %s", way, a.Target, a.Body, b.Target, b.Body)
		}
	}
	n := len(rig.TextRequestTypes)
	if told := p.AccessLinesWhenIdle(); len(told) != n || slices.ContainsFunc(lines(p), func(l line) bool { return l.Upstream != "old" || l.Arm != "-" }) {
		t.Errorf("the log has %d calls: %+v", len(told), lines(p))
	}
	if k := p.Metric("penstock_key_calls_total"); k != float64(n) {
		t.Errorf("%v calls are the key's", k)
	}
	if used := p.Metric("penstock_shadow_tokens_total", `kind="completion"`); used != float64(20*n) {
		t.Errorf("%v tokens are counted", used)
	}
	m := p.Status().Models[0].Shadow
	if m == nil || m.To != "copy" || m.Share != 1 || m.Copies["ok"] != int64(n) {
		t.Errorf("the state page has %+v", m)
	}
}

// TestShadowIsCompared checks that `penstock canary` compares copies with calls.
func TestShadowIsCompared(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	// Copies use less than half of the slots.
	s.Config = strings.Replace(s.Config, "concurrency: 1", "concurrency: 128", 1)
	s.Config = strings.Replace(s.Config, "concurrency: 8", "concurrency: 64", 1)
	s.Engines[1].Slots = 128
	s.Engines[0].Latency, s.Engines[1].Latency = 100*time.Millisecond, 900*time.Millisecond
	p := rig.Start(t, s)
	stream(p, 0, 60)
	waitCopies(t, p, "ok", 60)
	c, code, err := compareArms(t, p, "sim", "shadow:copy")
	if err != nil || code != 3 || len(c) != 1 || c[0].Calls != 60 || c[0].Rest != 60 || c[0].Rows[0].Verdict != "worse" {
		t.Errorf("canary = code %d, %v: %+v; want code 3 and worse after 60 calls each", code, err, c)
	}
}

// TestShadowShare checks that either all turns of a conversation are copied, or none of them.
func TestShadowShare(t *testing.T) {
	t.Parallel()
	s := shadowSetup("40%", "")
	s.Config = strings.Replace(s.Config, "concurrency: 1", "concurrency: 64", 1)
	p := rig.Start(t, s)
	const conversations, turns = 40, 3
	for i := range turns {
		for n := range conversations {
			p.Post(chatPath, turn(n, i, "")).WantStatus(200)
		}
	}
	p.AccessLinesWhenIdle()
	p.WaitIdle()
	seen := map[string]int{}
	for _, r := range generations(p.Engines[1]) {
		_, rest, _ := strings.Cut(string(r.Body), "conversation ")
		n, _, _ := strings.Cut(rest, `"`)
		seen[n]++
	}
	for n, times := range seen {
		if times != turns {
			t.Errorf("of conversation %s %d turns were copied", n, times)
		}
	}
	if n := len(seen); n < conversations/8 || n > conversations*3/4 {
		t.Errorf("%d of %d conversations were copied", n, conversations)
	}
}

// TestShadowEndsWithItsClient checks that a copy ends if the client disconnects before it has
// received the whole answer.
func TestShadowEndsWithItsClient(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, shadowSetup("100%", ""))
	for i, way := range rig.TextRequestTypes {
		running := func() bool { return p.Engines[1].Stats().Running == 1 }
		if way.Stream {
			c := p.OpenStream(way.Path, way.RequestBody("sim", rig.Prompt, `"tokens":100000,"delay_ms":200`))
			rig.WaitFor(t, rig.WaitTimeout, "the copy runs", running)
			c.Disconnect()
		} else {
			c := p.Dial()
			if err := c.Send(p.RequestBytes(way.Path, way.RequestBody("sim", rig.Prompt, `"tokens":100000,"delay_ms":200`))); err != nil {
				t.Fatal(err)
			}
			rig.WaitFor(t, rig.WaitTimeout, "the copy runs", running)
			c.Reset()
		}
		waitCopies(t, p, "client_gone", float64(i+1))
		p.WaitIdle()
	}
	if n := p.Engines[1].Stats().Aborted; n != int64(len(rig.TextRequestTypes)) {
		t.Errorf("the engine has ended %d copies", n)
	}
}

// TestShadowOutlivesItsCall checks that a copy that is slower than its call continues after the
// answer, and that it ends when the edge drains.
func TestShadowOutlivesItsCall(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Engines[1].Latency, s.Untidy = time.Hour, true
	p := rig.Start(t, s)
	p.SendPrompt(rig.ChatStream, rig.Prompt, "").WantStatus(200)
	rig.WaitFor(t, rig.WaitTimeout, "the copy runs", func() bool { return p.Engines[1].Stats().Running == 1 })
	p.SendPrompt(rig.Chat, rig.Prompt, "").WantStatus(200)
	waitCopies(t, p, "no_slot", 1)
	p.End()
	rig.WaitFor(t, rig.WaitTimeout, "the copy has ended", func() bool { return p.Engines[1].Stats().Running == 0 })
}

// TestShadowOutlivesItsClient checks that a copy that is slower than its call continues if the
// client disconnects directly after the complete answer.
func TestShadowOutlivesItsClient(t *testing.T) {
	t.Parallel()
	s := shadowSetup("100%", "")
	s.Engines[1].Latency = 300 * time.Millisecond
	p := rig.Start(t, s)
	p.Engines[0].SetFault(sim.Fault{Spec: "close-delimited"})
	for i := range 12 {
		c := p.Dial()
		if err := c.Send(p.RequestBytes(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":5,"delay_ms":5}`))); err != nil {
			t.Fatal(err)
		}
		for all := ""; !strings.Contains(all, "[DONE]"); {
			some := make([]byte, 4096)
			n, err := c.Read(some)
			if all += string(some[:n]); err != nil {
				t.Fatalf("%v behind %q", err, all)
			}
		}
		c.Reset()
		waitCopies(t, p, "ok", float64(i+1))
	}
}

// TestShadowTakesFreeSlots checks that a copy is made only if there is a free slot, and that it
// occupies this slot. It tests models with and without a queue.
func TestShadowTakesFreeSlots(t *testing.T) {
	t.Parallel()
	for _, more := range []string{"", ", queue: { depth: 4, wait: 10m }"} {
		t.Run("queue"+more, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, shadowSetup("100%", more))
			own := p.OpenStream(chatPath, strings.Replace(turn(1, 0, endlessMembers), `"sim"`, `"copy"`, 1))
			own.Next()
			p.SendPrompt(rig.Chat, rig.Prompt, "").WantStatus(200)
			waitCopies(t, p, "no_slot", 1)
			own.Disconnect()
			rig.WaitFor(t, rig.WaitTimeout, "the slot is free", func() bool { return p.Engines[1].Stats().Running == 0 })
			p.WaitIdle()
			first := p.OpenStream(chatPath, turn(0, 0, endlessMembers))
			first.Next()
			rig.WaitFor(t, rig.WaitTimeout, "the copy runs", func() bool { return p.Engines[1].Stats().Running == 1 })
			if more == "" {
				p.Post(chatPath, strings.Replace(turn(1, 0, ""), `"sim"`, `"copy"`, 1)).WantStatus(429)
			}
			first.Disconnect()
			if n := len(generations(p.Engines[1])); n != 2 {
				t.Errorf("the engine was sent %d requests", n)
			}
		})
	}
}

// TestShadowFails checks that the client receives its answer and the breaker stays closed,
// regardless of what the copy's engine does.
func TestShadowFails(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"status=500", "status=429", "reset-before", "garbage-head", "head-cut", "cut-after=2", "reset-after=2"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, shadowSetup("100%", ""))
			p.Engines[1].SetFault(sim.Fault{Spec: fault})
			for i := range 12 {
				p.SendPrompt(rig.TextRequestTypes[i%len(rig.TextRequestTypes)], rig.Prompt, "").WantStatus(200)
				waitCopies(t, p, "failed", float64(i+1))
			}
			if u := p.Upstream("new"); u.Breaker != "closed" || u.State != "up" || u.LastFailure == nil {
				t.Errorf("its upstream is %+v", u)
			}
			p.Engines[1].SetFault()
			p.SendPrompt(rig.ChatStream, rig.Prompt, "").WantStatus(200)
			waitCopies(t, p, "ok", 1)
			p.WaitIdle()
		})
	}
}

// TestShadowUnfit checks that a call that the other model would reject is not copied.
func TestShadowUnfit(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, shadowSetup("100%", ", supported_features: [streaming]"))
	p.Post(chatPath, turn(0, 0, `,"tools":[{"type":"function","function":{"name":"f"}}]`)).WantStatus(200)
	waitCopies(t, p, "unfit", 1)
	if n := len(generations(p.Engines[1])); n != 0 {
		t.Errorf("the engine was sent %d requests", n)
	}
}

// TestShadowRefused checks that an invalid request does not count as a failure of the copy's
// engine.
func TestShadowRefused(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"status=400", "status=422"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, shadowSetup("100%", ""))
			p.Engines[1].SetFault(sim.Fault{Spec: fault})
			for i := range 3 {
				p.SendPrompt(rig.TextRequestTypes[i%len(rig.TextRequestTypes)], rig.Prompt, "").WantStatus(200)
				waitCopies(t, p, "unfit", float64(i+1))
			}
			if u := p.Upstream("new"); u.LastFailure != nil {
				t.Errorf("its last failure is %+v", u.LastFailure)
			}
		})
	}
}

// TestShadowNeedsConsent checks that calls of a key without consent are not copied to external
// engines.
func TestShadowNeedsConsent(t *testing.T) {
	t.Parallel()
	o := new(externalEngine)
	p := rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
  - { id: agreed, hash: %q, models: [sim], tiers: [0] }
upstreams:
  - { name: old, url: "{{up-0}}", engine: sim, concurrency: 64, probe: { timeout: 15s } }
  - { name: out, url: %q, engine: sim, external: true, concurrency: 64, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: old }], shadow: { model: copy, share: 100%% } }
  - { id: copy, deployments: [{ upstream: out, served: sim }] }
`, auth.HashKey(consentKey), o.start(t)),
	})
	for i, way := range rig.TextRequestTypes {
		p.SendPrompt(way, sentinel, "").WantStatus(200)
		waitCopies(t, p, "forbidden", float64(i+1))
	}
	if strings.Contains(o.text(), sentinel) {
		t.Error("a prompt has left the house")
	}
	p.Post(chatPath, turn(0, 0, ""), "Authorization: Bearer "+consentKey).WantStatus(200)
	waitCopies(t, p, "ok", 1)
	if !strings.Contains(o.text(), "conversation 0") {
		t.Error("the copy of who has agreed is missing: the test proves nothing")
	}
}

// TestShadow_Changed checks that an engine that rejects adjacent turns with the same role receives
// the copy again with the turns joined. The engine must receive later copies in this form.
func TestShadow_Changed(t *testing.T) {
	t.Parallel()
	setup := shadowSetup("100%", "")
	setup.Engines[1].AlternateRoles = true
	p := rig.Start(t, setup)
	const body = `{"model":"sim","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`
	for i := range 2 {
		p.Post("/v1/chat/completions", body).WantStatus(200)
		waitCopies(t, p, "ok", float64(i+1))
		p.WaitIdle()
		if n := len(generations(p.Engines[1])); n != i+2 {
			t.Fatalf("after %d calls the other engine was sent %d requests", i+1, n)
		}
	}
}
