package tiers

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

const confinedKey = "key-that-may-use-one-model"

// TestFallback checks that, in every dialect, a fallback model answers, under its own name, while
// the model's engines are full or out. If the key may not use the fallback, the client must receive
// the error. A call that the fallback cannot answer must go to the next fallback.
func TestFallback(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64}, {Slots: 64}, {Slots: 64}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
keys:
  - { id: tester, hash: "{{hash}}" }
  - { id: confined, hash: %q, models: [sim] }
upstreams:
  - { name: a, url: "{{up-0}}", engine: sim, concurrency: 2, probe: { interval: 200ms, timeout: 15s, fall: 1, rise: 1 } }
  - { name: b, url: "{{up-1}}", engine: sim, concurrency: 16, probe: { timeout: 15s } }
  - { name: c, url: "{{up-2}}", engine: sim, concurrency: 16, probe: { timeout: 15s } }
  - { name: x, url: "{{up-2}}/x", engine: sim, external: true, concurrency: 16, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: a }], fallback: [outside, small, pictures] }
  - { id: outside, deployments: [{ upstream: x, served: sim }] }
  - { id: small, deployments: [{ upstream: b, served: sim }], input_modalities: [text], context_length: 2000, fallback: [sim] }
  - { id: pictures, deployments: [{ upstream: c, served: sim }] }
`, auth.HashKey(confinedKey)), Cold: true,
	})
	rig.WaitFor(t, rig.WaitTimeout, "the engines are up", func() bool {
		return p.Upstream("a").State == "up" && p.Upstream("b").State == "up" && p.Upstream("c").State == "up"
	})
	full := (&overflowEdge{LocalEdge: p, house: p.Engines[0]}).hold
	check := func(why string, status int) {
		t.Helper()
		for path, body := range prompts {
			if strings.HasSuffix(path, "count_tokens") {
				continue
			}
			for _, more := range []string{"", `,"stream":true`} {
				r := p.Post(path, fmt.Sprintf(body, more)).WantStatus(200)
				if !strings.Contains(r.Body, `"model":"small"`) || strings.Contains(r.Body, `"model":"sim"`) {
					t.Errorf("%s, %s: the model is %s", why, path, r.Body)
				}
			}
		}
		p.Post(chatPath, p.ChatRequest(""), "Authorization: Bearer "+confinedKey).WantStatus(status)
		if r := p.Post(chatPath, rig.VisionBody(rig.PictureDataURL("png"), "")).WantStatus(200); !strings.Contains(r.Body, `"model":"pictures"`) {
			t.Errorf("%s, a picture: the model is %s", why, r.Body)
		}
		long := strings.Replace(p.ChatRequest(""), `"content":"`, `"content":"`+strings.Repeat("many words ", 3000), 1)
		if r := p.Post(chatPath, long).WantStatus(200); !strings.Contains(r.Body, `"model":"pictures"`) {
			t.Errorf("%s, a long prompt: the model is %.300s", why, r.Body)
		}
	}
	release := full()
	running := p.OpenResponse(t.Context(), "POST", chatPath, p.ChatRequest(endlessBody))
	rig.WaitFor(t, rig.WaitTimeout, "the page has the running call's model", func() bool {
		for _, c := range p.Status().Calls {
			if c.Model == "small" && c.Asked == "sim" && c.State == "streaming" {
				return true
			}
		}
		return false
	})
	_ = running.Body.Close()
	check("full", 429)
	release()
	if r := p.Post(chatPath, p.ChatRequest("")).WantStatus(200); !strings.Contains(r.Body, `"model":"sim"`) {
		t.Errorf("with a free slot: %s", r.Body)
	}
	p.Engines[0].SetHealthy(false)
	rig.WaitFor(t, rig.WaitTimeout, "the engine is down", func() bool { return p.Upstream("a").State == "down" })
	if s := p.Status(); s.Models[0].State != "fallback" || !slices.Contains(s.Models[0].Fallbacks, "small") || s.Verdict.Level != "degraded" {
		t.Errorf("the page calls a model whose fallback answers %s by %q: %+v", s.Models[0].State, s.Models[0].Fallbacks, s.Verdict)
	}
	check("down", 503)
	small, asked := 0, 0
	for _, c := range p.AccessLinesWhenIdle() {
		if c.Model == "small" {
			small++
		}
		if c.Asked == "sim" {
			asked++
		}
	}
	if small != 13 || asked != 17 {
		t.Errorf("the log has %d calls of the small model, and %d that were asked of the first", small, asked)
	}
	if n := p.Metric("penstock_fallback_calls_total", `model="sim"`, `to="small"`); n != 13 {
		t.Errorf("%v calls, want 13", n)
	}
}
