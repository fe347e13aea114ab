package tiers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// sentinel is in every prompt of a key without consent for external engines.
const sentinel = "sentinel-of-the-house-4711"

// externalEngine is an engine that records every request that reaches it.
type externalEngine struct {
	mu  sync.Mutex
	all strings.Builder
}

func (o *externalEngine) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}

func (o *externalEngine) start(t *testing.T) string {
	to, err := url.Parse(rig.StartEngine(t, sim.Options{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	engine := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := httputil.DumpRequest(r, true)
		o.mu.Lock()
		o.all.Write(text)
		o.mu.Unlock()
		engine.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const consentKey = "key-of-those-who-have-agreed"

// startConfined runs an edge with the key tester, which has no consent, and another key, which has
// consent. Only the external engine serves the second model.
func startConfined(t *testing.T, model string) (*rig.LocalEdge, *externalEngine) {
	t.Helper()
	o := new(externalEngine)
	return rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64}},
		Config: fmt.Sprintf(`admin: { token: %s }
timeouts: { linger: 0s, drain: 1s, connect: 10s }
retry: { budget: 100%% }
keys:
  - { id: tester, hash: "{{hash}}" }
  - { id: agreed, hash: %q, tiers: [0, 1] }
upstreams:
  - { name: house, url: "{{up-0}}", engine: sim, concurrency: 2, prefill: proven, probe: { interval: 200ms, timeout: 15s, fall: 1, rise: 1 } }
  - { name: out, url: %q, engine: sim, external: true, concurrency: 64, prefill: proven, probe: { timeout: 15s } }
models:
  - { id: sim, deployments: [{ upstream: house }, { upstream: out, tier: 1 }], retry: { resume: 1 }%s }
  - { id: theirs, deployments: [{ upstream: out, served: sim }] }
`, rig.AdminToken, auth.HashKey(consentKey), o.start(t), model),
	}), o
}

// prompts are requests from the key without consent, in every dialect.
var prompts = map[string]string{
	chatPath:                    `{"model":"sim","messages":[{"role":"user","content":"` + sentinel + `"}]%s}`,
	"/v1/messages":              `{"model":"sim","max_tokens":20,"messages":[{"role":"user","content":"` + sentinel + `"}]%s}`,
	"/v1/responses":             `{"model":"sim","input":"` + sentinel + `"%s}`,
	"/v1/messages/count_tokens": `{"model":"sim","messages":[{"role":"user","content":"` + sentinel + `"}]%s}`,
}

// TestConsent checks that no call of a key without consent reaches an external engine, regardless
// of what happens to the in-house engines. A key with consent must receive answers from the
// external engine. A key without consent must receive the in-house engines' error.
func TestConsent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model string
		house func(*testing.T, *rig.LocalEdge) // what happens to the in-house engines
		want  map[string]int                   // the expected status, by path; if 0, the default
	}{
		"full": {"", func(t *testing.T, p *rig.LocalEdge) {
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			for range 2 {
				s := p.OpenResponse(ctx, "POST", chatPath, p.ChatRequest(endlessBody))
				t.Cleanup(func() { _ = s.Body.Close() })
			}
		}, map[string]int{"": 429}},
		"full, and a queue": {", queue: { depth: 4, wait: 100ms }", func(t *testing.T, p *rig.LocalEdge) {
			ctx, cancel := context.WithCancel(context.Background())
			t.Cleanup(cancel)
			for range 2 {
				s := p.OpenResponse(ctx, "POST", chatPath, p.ChatRequest(endlessBody))
				t.Cleanup(func() { _ = s.Body.Close() })
			}
		}, map[string]int{"": 429}},
		"failing": {"", func(_ *testing.T, p *rig.LocalEdge) { p.Engines[0].SetFault(sim.Fault{Spec: "status=503"}) }, map[string]int{"": 503, "/v1/messages": 529}},
		"resets":  {"", func(_ *testing.T, p *rig.LocalEdge) { p.Engines[0].SetFault(sim.Fault{Spec: "reset-before"}) }, map[string]int{"": 502, "/v1/messages": 529}},
		"down": {"", func(t *testing.T, p *rig.LocalEdge) {
			p.Engines[0].SetHealthy(false)
			rig.WaitFor(t, rig.WaitTimeout, "the house is down", func() bool { return p.Upstream("house").State == "down" })
		}, map[string]int{"": 503, "/v1/messages": 529}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, o := startConfined(t, c.model)
			c.house(t, p)
			for path, body := range prompts {
				for _, more := range []string{"", `,"stream":true`} {
					want := c.want[path]
					if want == 0 {
						want = c.want[""]
					}
					if strings.HasSuffix(path, "count_tokens") {
						if want = 200; more != "" {
							continue
						}
					}
					r := p.Post(path, fmt.Sprintf(body, more))
					if want != 502 || r.Status != 503 { // a 503 means that the breaker has opened
						r.WantStatus(want)
					}
				}
			}
			r := p.Post(chatPath, strings.ReplaceAll(p.ChatRequest(""), `"sim"`, `"theirs"`))
			if r.WantError(403, "permission_error", "model_not_allowed"); !strings.Contains(r.Body, "the key's tiers") {
				t.Errorf("the refusal does not name tiers: %s", r.Body)
			}
			rig.WantNoLeak(t, "the external engine", o.text(), sentinel)
			p.Post(chatPath, p.ChatRequest(`"user":"has-agreed"`), "Authorization: Bearer "+consentKey).WantStatus(200)
			if !strings.Contains(o.text(), "has-agreed") {
				t.Error("a call whose key has agreed did not get there")
			}
		})
	}
}

// TestConsent_Catalog checks that a key sees the models that may answer its calls, and that the
// list for requests without a key contains all models.
func TestConsent_Catalog(t *testing.T) {
	t.Parallel()
	p, _ := startConfined(t, "")
	const listed = `"id":"theirs"`
	for _, c := range []struct {
		name, header string
		shown        bool
	}{{"no key", "Authorization: ", true}, {"has not agreed", "Authorization: Bearer " + p.Key, false}, {"agreed", "Authorization: Bearer " + consentKey, true}} {
		for _, form := range []string{"", "anthropic-version: 2023-06-01"} {
			headers := []string{c.header}
			if form != "" {
				headers = append(headers, form)
			}
			if r := p.Do("GET", "/v1/models", "", headers...).WantStatus(200); strings.Contains(r.Body, listed) != c.shown || !strings.Contains(r.Body, `"id":"sim"`) {
				t.Errorf("%s: list = %s, want sim, and the other model: %v", c.name, r.Body, c.shown)
			}
		}
		status := 200
		if !c.shown {
			status = 404
		}
		p.Do("GET", "/v1/models/theirs", "", c.header).WantStatus(status)
		p.Do("GET", "/v1/models/sim", "", c.header).WantStatus(200)
	}
}

// TestConsentOfMoves checks that calls of a key without consent stay in-house, even if they move to
// another engine.
func TestConsentOfMoves(t *testing.T) {
	t.Parallel()
	t.Run("drained", func(t *testing.T) {
		t.Parallel()
		p, o := startConfined(t, "")
		body := fmt.Sprintf(prompts[chatPath], `,"stream":true,"max_tokens":64,"sim":{"tokens":50,"delay_ms":200}`)
		var done sync.WaitGroup
		done.Go(func() { p.Post(chatPath, body).WantStatus(200) })
		done.Go(func() {
			p.Post(chatPath, strings.ReplaceAll(body, sentinel, "has-agreed"), "Authorization: Bearer "+consentKey).WantStatus(200)
		})
		rig.WaitFor(t, rig.WaitTimeout, "both run", func() bool { return p.Engines[0].Stats().Running == 2 })
		req, err := http.NewRequestWithContext(t.Context(), "POST", p.Admin+"/-/mode", strings.NewReader("upstream=house&mode=drain"))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("operator", rig.AdminToken)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if res, err := p.Client.Do(req); err != nil || res.StatusCode != http.StatusSeeOther {
			t.Fatalf("draining: %v, %v", res, err)
		}
		done.Wait()
		rig.WantNoLeak(t, "the external engine", o.text(), sentinel)
		if !strings.Contains(o.text(), "has-agreed") {
			t.Error("a call whose key has agreed did not move")
		}
	})
	t.Run("resumed", func(t *testing.T) {
		t.Parallel()
		p, o := startConfined(t, "")
		p.Engines[0].SetFault(sim.Fault{Spec: "reset-after=3"})
		body := fmt.Sprintf(prompts[chatPath], `,"stream":true,"sim":{"tokens":12}`)
		if r := p.Post(chatPath, body); strings.Contains(r.Body, "[DONE]") || !strings.Contains(r.Body, `"error"`) {
			t.Errorf("the stream ended well: %s", r.Body)
		}
		rig.WantNoLeak(t, "the external engine", o.text(), sentinel)
		p.Post(chatPath, strings.ReplaceAll(body, sentinel, "has-agreed"), "Authorization: Bearer "+consentKey).WantStatus(200)
		if !strings.Contains(o.text(), "has-agreed") {
			t.Error("a call whose key has agreed was not resumed")
		}
	})
}
