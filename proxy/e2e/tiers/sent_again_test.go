package tiers

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// failingConfig is the start of a configuration. Its first engine fails calls even though its
// probes succeed.
const failingConfig = `timeouts: { linger: 0s }
retry: { budget: 0% }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: a, url: "{{up-0}}", engine: sim, QUIET }
  - { name: b, url: "{{up-1}}", engine: sim, QUIET }
`

// TestFailingEngine checks that, if an engine fails on a call, a later tier or a fallback model
// answers the call. This is not a retry, so it must not need the retry budget. An invalid request
// must not go to another engine.
func TestFailingEngine(t *testing.T) {
	t.Parallel()
	for name, models := range map[string]string{
		"fallback":   "models: [{ id: sim, deployments: [{ upstream: a }], fallback: [other] }, { id: other, deployments: [{ upstream: b, served: sim }] }]",
		"later tier": "models: [{ id: sim, deployments: [{ upstream: a }, { upstream: b, tier: 2 }] }]",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, rig.Setup{Engines: rig.TwoEngines(), Config: strings.ReplaceAll(failingConfig, "QUIET", rig.QuietProbes) + models})
			p.Engines[0].SetFault(sim.Fault{Spec: "status=400"})
			p.Post(chatPath, p.ChatRequest("")).WantStatus(400)
			for _, fault := range []string{"status=500", "status=501", "status=502", "status=503", "status=429", "reset-before", "error-first;code=500"} {
				p.Engines[0].SetFault(sim.Fault{Spec: fault})
				p.Engines[0].DropConns(1, false)
				for _, more := range []string{"", `"stream":true`} {
					before := p.Engines[1].Stats().Requests
					if r := p.Post(chatPath, p.ChatRequest(more)); r.Status != 200 || strings.Contains(r.Body, `"error"`) {
						t.Errorf("%s %s: answer = %d %s, want 200 without an error", fault, more, r.Status, r.Body)
					}
					if n := p.Engines[1].Stats().Requests - before; n > 1 {
						t.Errorf("%s: the second engine was asked %d times", fault, n)
					}
				}
			}
		})
	}
}

// TestFallbackHasOwnLimits checks that the fallback model's rules, rather than the requested
// model's, apply to a request that the fallback answers.
func TestFallbackHasOwnLimits(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: []sim.Options{{}, {Record: true}}, Config: strings.ReplaceAll(failingConfig, "QUIET", rig.QuietProbes) + `
models:
  - { id: sim, deployments: [{ upstream: a }], max_output_length: 7, supported_reasoning_efforts: [low], fallback: [other] }
  - { id: other, deployments: [{ upstream: b, served: sim }], max_output_length: 200, supported_reasoning_efforts: [low, high] }
`})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=503"})
	p.Post("/v1/messages", `{"model":"sim","max_tokens":60,"output_config":{"effort":"high"},"messages":[{"role":"user","content":"hi"}]}`).WantStatus(200)
	for _, want := range []string{`"max_tokens":60`, `"high"`} {
		if got := string(p.Engines[1].Stats().LastRequest.Body); !strings.Contains(got, want) {
			t.Errorf("the engine of the fallback was sent %s, want %s in it", got, want)
		}
	}
}

// TestFallbackAfterLongWait checks that the fallback also answers a stream that has waited for a
// slot so long that the client has received keep-alives.
func TestFallbackAfterLongWait(t *testing.T) {
	t.Parallel()
	p := rig.Start(t, rig.Setup{Engines: rig.TwoEngines(), Config: `timeouts: { linger: 0s }
stream: { commit_after: 100ms, keepalive: 100ms }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: a, url: "{{up-0}}", engine: sim, concurrency: 1 }
  - { name: b, url: "{{up-1}}", engine: sim }
models:
  - { id: sim, deployments: [{ upstream: a }], queue: { depth: 8, wait: 1s }, fallback: [other] }
  - { id: other, deployments: [{ upstream: b, served: sim }] }
`})
	running := p.OpenResponse(t.Context(), "POST", chatPath, p.ChatRequest(endlessBody))
	rig.WaitFor(t, rig.WaitTimeout, "the slot is taken", func() bool { return p.Engines[0].Stats().Running == 1 })
	for dialect, c := range map[string][2]string{
		"chat":      {chatPath, p.ChatRequest(`"stream":true`)},
		"messages":  {"/v1/messages", `{"model":"sim","max_tokens":20,"stream":true,"messages":[{"role":"user","content":"hi"}]}`},
		"responses": {"/v1/responses", `{"model":"sim","stream":true,"input":"hi"}`},
	} {
		r := p.Post(c[0], c[1]).WantStatus(200)
		if strings.Contains(r.Body, "capacity_full") || strings.Contains(r.Body, `"error":{`) || p.Engines[1].Stats().Requests == 0 {
			t.Errorf("%s: answer = %s, want no error, from the second engine", dialect, r.Body)
		}
	}
	_ = running.Body.Close()
	answered := 0
	for _, l := range p.AccessLinesWhenIdle() {
		if l.Model == "other" && l.Asked == "sim" && l.Upstream == "b" {
			answered++
		}
	}
	if answered != 3 {
		t.Errorf("the log has %d calls that the fallback answered, want 3", answered)
	}
}
