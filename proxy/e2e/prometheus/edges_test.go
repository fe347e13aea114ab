package prometheus

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"penstock/bench/sim"
	"penstock/config/testkit/selfsigned"
	"penstock/proxy/e2e/rig"
)

// edges consists of two edges in a fleet and one edge in another fleet. One of the first two edges
// uses TLS on both listeners. The ACME authority of the third edge does not respond.
type edges struct {
	t   *testing.T
	all []*rig.ProgramEdge
}

const chatPath = "/v1/chat/completions"

// shared is the configuration of the fleet. Its upstream "gone" never responds, and its hook
// returns no decision.
const shared = `
timeouts: { linger: 0s, drain: 1s, connect: 10s }
tracing: { otlp: "http://127.0.0.1:1" }
fleet: { edges: 2, store: { url: "redis://{{store}}", timeout: 1s }, keys: { secrets: ["a-secret-of-the-store's-keys-0123456789"] } }
seal: { keys: ["a-key-that-seals-reasoning-0123456789"] }
ledger: { path: usage.ledger, export: [{ file: usage.jsonl }] }
hooks: [{ name: guard, before: "{{jwks}}/decide", timeout: 60s, on_error: open, models: [tiers] }]
issuers: [{ issuer: "https://idp.test", name: corp, audience: penstock, jwks: "{{jwks}}", claims: { templates: [{ claim: groups, value: staff, key: tester }] } }]
keys:
  - { id: tester, hash: "{{hash}}", limits: { requests_per_minute: 100000 } }
upstreams:
  - { name: gpu-a, url: "{{a}}", engine: sim, concurrency: 2, probe: { interval: 500ms, timeout: 15s } }
  - { name: gpu-b, url: "{{b}}", engine: sim, concurrency: 2, probe: { interval: 500ms, timeout: 15s } }
  - { name: found, url: "{{a}}", engine: sim, concurrency: 2, resolve: 1s, probe: { interval: 500ms, timeout: 15s } }
  - { name: gone, url: "http://127.0.0.1:1", engine: sim, probe: { interval: 200ms, timeout: 15s, fall: 1 } }
models:
  - { id: sim, deployments: [{ upstream: gpu-a }, { upstream: gpu-b }], queue: { depth: 2, wait: 500ms } }
  - { id: tiers, deployments: [{ upstream: gpu-a, served: sim }, { upstream: found, served: sim, tier: 1 }] }
  - { id: out, deployments: [{ upstream: gone, served: sim }] }
`

func startEdges(t *testing.T) *edges {
	t.Helper()
	a, b := rig.StartEngine(t, sim.Options{TokenRate: 200}), rig.StartEngine(t, sim.Options{TokenRate: 200})
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	}))
	t.Cleanup(provider.Close)
	cert, key := selfsigned.WritePair(t, t.TempDir(), "edge.test", time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	store := miniredis.RunT(t).Addr()
	config := strings.NewReplacer("{{a}}", a.URL(), "{{b}}", b.URL(), "{{store}}", store, "{{jwks}}", provider.URL).Replace(shared)
	e := &edges{t: t}
	pair := "cert: " + cert + ", key: " + key
	for _, own := range []struct{ config, admin string }{
		{config: config},
		{config + "tls: { " + pair + " }\n", pair},
		{config: `tls: { acme: { domains: [edge.test], folder: certificates, accept_terms: true, directory: "https://127.0.0.1:1/directory" } }
auth: none
fleet: { edges: 2, store: { url: "redis://` + store + `", timeout: 1s, prefix: other }, secrets: [0123456789abcdef0123456789abcdef] }
seal: { keys: ["a-key-that-seals-certificates-0123456789"] }
upstreams: [{ name: gpu-a, url: "` + a.URL() + `", engine: sim, probe: { timeout: 15s } }]
models: [{ id: sim, deployments: [{ upstream: gpu-a }] }]
`},
	} {
		e.all = append(e.all, rig.StartProgram(t, rig.Setup{Config: own.config, AdminTLS: own.admin, Engines: []sim.Options{}, Cold: true, Untidy: true}))
	}
	e.all[0].Engines = []*sim.Engine{a, b}
	return e
}

func (e *edges) targets() (all []string) {
	for _, p := range e.all {
		all = append(all, p.Admin)
	}
	return all
}

// traffic sends calls of all kinds to the first edge until the test ends.
func (e *edges) traffic() {
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	e.t.Cleanup(func() {
		stop()
		running.Wait()
	})
	p := e.all[0]
	p.Engines[1].SetFault(sim.Fault{Spec: "cut-after=3", Share: 0.3}, sim.Fault{Spec: "status=503", Share: 0.1})
	send := func(each time.Duration, path, body string, header ...string) {
		running.Go(func() {
			for ctx.Err() == nil {
				call, cancel := context.WithCancel(ctx)
				if res, err := p.TryOpenResponse(call, "POST", path, body, header...); err == nil {
					some := make([]byte, 512)
					// if the answer is longer, the client disconnects before its end
					_, err := res.Body.Read(some)
					for err == nil && !strings.Contains(body, "100000") {
						_, err = res.Body.Read(some)
					}
					res.Body.Close()
				}
				cancel()
				select {
				case <-ctx.Done():
				case <-time.After(each):
				}
			}
		})
	}
	const often = 100 * time.Millisecond
	for range 4 { // occasionally, there are more calls than slots
		send(often, chatPath, rig.ChatBody("sim", `"stream":true,"sim":{"tokens":20}`))
		send(often, chatPath, rig.ChatBody("sim", ""))
		send(often, chatPath, rig.ChatBody("sim", `"stream":true,"sim":{"tokens":100000}`))
	}
	send(often, "/v1/messages", `{"model":"sim","max_tokens":20,"messages":[{"role":"user","content":"Hello!"}],"stream":true}`)
	send(often, "/v1/responses", `{"model":"sim","input":"Hello!"}`)
	send(often, chatPath, rig.ChatBody("tiers", ""))
	send(often, chatPath, rig.ChatBody("out", ""))
	send(often, chatPath, rig.ChatBody("unknown", ""))
	send(often, chatPath, `{"model":`)
	send(often, chatPath, rig.ChatBody("sim", ""), "Authorization: Bearer wrong")
}
