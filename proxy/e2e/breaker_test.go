package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// twoKeys starts an edge with two keys for one engine. other sends requests with the second key.
func twoKeys(t *testing.T, s rig.Setup) (p *penstock, other func(more string) *rig.Reply) {
	t.Helper()
	key, hash, _ := auth.NewKey()
	s.Keys = `- { id: other, hash: "` + hash + `" }`
	p = start(t, s)
	return p, func(more string) *rig.Reply {
		return p.Post(chatPath, p.ChatRequest(more), "Authorization: Bearer "+key)
	}
}

const failingFault = `"sim":{"fault":"status=500"}`

// TestOneClientLeavesTheEngineToOthers checks that other clients are served, regardless of what the
// engine answers to one client. After each failure, the edge must probe whether the engine still
// works.
func TestOneClientLeavesTheEngineToOthers(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"an error of the engine": "status=500",
		"no answer at all":       "reset-before",
		"half an answer":         "cut-after=0",
		"a broken stream":        "reset-after=2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, other := twoKeys(t, rig.Setup{Engines: []sim.Options{{Record: true}}, Retry: "attempts: 1"})
			const rounds = 12
			for round := range rounds {
				for i := range 5 {
					stream := ""
					if i%2 == 1 || strings.Contains(fault, "after") {
						stream = `"stream":true,`
					}
					p.Post(chatPath, p.ChatRequest(fmt.Sprintf(`%s"seed":%d,"sim":{"fault":%q}`, stream, 10*round+i, fault)))
				}
				other("").WantStatus(200)
			}
			if u := p.Upstream("up-0"); u.State != "up" || u.Breaker != "closed" {
				t.Errorf("state = %s, breaker %s; want up and closed", u.State, u.Breaker)
			}
			p.AccessLinesWhenIdle() // waits until all calls are counted
			if n := p.Metric("penstock_calls_finished_total"); n != 6*rounds {
				t.Errorf("%v calls are counted, want %d: a generation probe is none", n, 6*rounds)
			}
			tokens := p.Metric("penstock_tokens_total", `kind="prompt"`)
			rig.WaitFor(t, rig.WaitTimeout, "every generation probe that the engine saw is counted", func() bool {
				sent := 0
				for _, r := range p.Engines[0].Recorded() {
					if strings.Contains(r.Get("User-Agent"), "probe") {
						sent++
					}
				}
				n := p.Metric("penstock_upstream_generation_probes_total", `result="ok"`)
				return n > 0 && int(n) == sent
			})
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
			p.AccessLinesWhenIdle()
			if after := p.Metric("penstock_tokens_total", `kind="prompt"`); after <= tokens {
				t.Error("a client's tokens are not counted any more")
			}
		})
	}
}

// TestOneClientWithoutKeys repeats TestOneClientLeavesTheEngineToOthers without keys. Clients
// cannot be distinguished, so only the engine's answers matter.
func TestOneClientWithoutKeys(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "auth: none"})
	for i := range 60 {
		p.Post(chatPath, p.ChatRequest(fmt.Sprintf(`"seed":%d,%s`, i, failingFault)))
		if i%6 == 5 {
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		}
	}
}

// TestEngineThatFailsEverything checks that an engine that fails every call is taken out of service
// within two seconds, even though it has only one client. Once the engine has recovered, it must
// return to service.
func TestEngineThatFailsEverything(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, top string
		way       rig.RequestType
	}{
		{"one key", "", rig.ChatStream},
		{"no keys", "auth: none", rig.Messages},
		{"a transcription", "", rig.Transcription},
		{"speech", "", rig.Speech},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Top: c.top, Model: c.way.ModelKind(), Upstream: rig.QuietProbes})
			p.Edge.SendRequest(c.way, "").WantStatus(200)
			p.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
			begun := time.Now()
			rig.WaitFor(t, 2*time.Second, "the engine is out of use", func() bool {
				if p.Upstream("up-0").Breaker == "closed" {
					p.Edge.SendRequest(c.way, "")
				}
				return p.Upstream("up-0").Breaker != "closed"
			})
			n := p.Metric("penstock_upstream_generation_probes_total", `result="failed"`)
			// After a second, the next failure may be the breaker's trial.
			if n < 1 || n > 1 && time.Since(begun) < time.Second {
				t.Errorf("%v generation probes failed", n)
			}
			if u := p.Upstream("up-0"); u.LastFailure == nil || u.LastFailure.Status != 500 {
				t.Errorf("the status page says %+v", u.LastFailure)
			}
			p.Engines[0].SetFault()
			rig.WaitFor(t, rig.WaitTimeout, "the engine serves again", func() bool { return p.Edge.SendRequest(c.way, "").Status == 200 })
		})
	}
}

const notFound = "status=404;message=no"

// TestEngineThatFindsNothing checks an engine that answers every call with a 404 without a reason.
// Calls that another engine can answer must not fail, and the faulty engine must get few of them.
// If it is the only engine, it must be taken out of service, and the status must say where to look.
func TestEngineThatFindsNothing(t *testing.T) {
	t.Parallel()
	t.Run("beside another", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin"})
		p.Engines[0].SetFault(sim.Fault{Spec: notFound})
		for range 40 {
			p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
		}
		if n := p.Engines[0].Stats().Requests; n > 10 {
			t.Errorf("the engine was asked %d times for 40 calls", n)
		}
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		p := start(t, rig.Setup{Upstream: rig.QuietProbes})
		p.Engines[0].SetFault(sim.Fault{Spec: notFound})
		rig.WaitFor(t, rig.WaitTimeout, "the engine is out of use", func() bool {
			if p.Upstream("up-0").Breaker == "closed" {
				p.Post(chatPath, p.ChatRequest("")).WantError(503, "api_error", "no_healthy_route")
			}
			return p.Upstream("up-0").Breaker != "closed"
		})
		if text := p.Fetch("GET", p.Admin+"/status").Body; !strings.Contains(text, "status 404: look at its url, and at served of its models") {
			t.Errorf("the status says %s", text)
		}
		p.Engines[0].SetFault()
		rig.WaitFor(t, rig.WaitTimeout, "the engine serves again", func() bool { return p.Post(chatPath, p.ChatRequest("")).Status == 200 })
	})
}

// TestRequestsThatNoEngineFinds checks requests that get a 404 from every engine. They must not
// take any engine out of service, even if more than one key sends them.
func TestRequestsThatNoEngineFinds(t *testing.T) {
	t.Parallel()
	p, other := twoKeys(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes})
	for i := range 40 {
		body := fmt.Sprintf(`"seed":%d,"sim":{"fault":%q}`, i, notFound)
		if i%2 == 0 {
			p.Post(chatPath, p.ChatRequest(body)).WantError(503, "api_error", "no_healthy_route")
		} else {
			other(body).WantError(503, "api_error", "no_healthy_route")
		}
	}
	rig.WaitFor(t, rig.WaitTimeout, "a probe of the edge has shown that the engines work", func() bool {
		return p.Metric("penstock_upstream_generation_probes_total", `result="ok"`) > 0
	})
	for _, name := range []string{"up-0", "up-1"} {
		if u := p.Upstream(name); u.State != "up" || u.Breaker != "closed" {
			t.Errorf("%s is %s, breaker %s; want up and closed", name, u.State, u.Breaker)
		}
	}
}

// TestHalfOpenIsNotOneClients checks that, if a client's call fails as a half-open breaker's trial,
// the next trial is a probe by the edge. A recovered engine therefore serves all clients again,
// regardless of what this client sends.
func TestHalfOpenIsNotOneClients(t *testing.T) {
	t.Parallel()
	p, other := twoKeys(t, rig.Setup{Upstream: rig.QuietProbes})
	p.Engines[0].SetFault(sim.Fault{Spec: "status=500"})
	rig.WaitFor(t, rig.WaitTimeout, "the breaker opens", func() bool {
		p.Post(chatPath, p.ChatRequest(""))
		return p.Upstream("up-0").Breaker == "open"
	})
	p.Engines[0].SetFault()
	rig.WaitFor(t, rig.WaitTimeout, "the client's call was the trial", func() bool {
		r := p.Post(chatPath, p.ChatRequest(failingFault))
		return strings.Contains(r.Body, "upstream_failed")
	})
	// On a slow machine, the next trial may already have ended.
	if p.Upstream("up-0").Breaker == "closed" && p.Metric("penstock_upstream_generation_probes_total", `result="ok"`) == 0 {
		t.Fatal("the breaker is closed after the failed trial")
	}
	trials := p.Metric("penstock_upstream_attempts_total", `result="bad_response"`)
	rig.WaitFor(t, rig.WaitTimeout, "the breaker closes", func() bool {
		if p.Upstream("up-0").Breaker == "closed" {
			return true
		}
		p.Post(chatPath, p.ChatRequest(failingFault)) // must not reach the engine
		return false
	})
	// Directly after the breaker closes, there may be one more attempt by this client.
	if n := p.Metric("penstock_upstream_attempts_total", `result="bad_response"`); n > trials+1 {
		t.Errorf("%v more calls of that client were trials", n-trials)
	}
	if p.Metric("penstock_upstream_generation_probes_total", `result="ok"`) != 1 {
		t.Error("no generation probe has closed the breaker")
	}
	other("").WantStatus(200)
}

// TestKindsWithoutGenerationProbe checks model kinds without a generation probe, such as image
// models, for which a probe would cost too much. The breaker opens only if different requests fail
// and the edge has no keys. The failures of one repeated request, or of a single key's requests,
// must not open it.
func TestKindsWithoutGenerationProbe(t *testing.T) {
	t.Parallel()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/images/generations":
			w.WriteHeader(http.StatusInternalServerError)
		case "/v1/models":
			_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"sim","object":"model"}]}`)
		}
	}))
	t.Cleanup(engine.Close)
	keyed := start(t, rig.Setup{Fakes: []string{engine.URL}, Model: "kind: image", Upstream: rig.QuietProbes})
	for i := range 20 {
		keyed.Post("/v1/images/generations", fmt.Sprintf(`{"model":"sim","prompt":"number %d"}`, i)).WantStatus(502)
	}
	p := start(t, rig.Setup{Top: "auth: none", Fakes: []string{engine.URL}, Model: "kind: image", Upstream: rig.QuietProbes})
	for range 20 {
		p.Post("/v1/images/generations", `{"model":"sim","prompt":"the same"}`).WantStatus(502)
	}
	if b := p.Upstream("fake-0").Breaker; b != "closed" {
		t.Fatalf("one repeated request: the breaker is %s", b)
	}
	for i := range 4 {
		p.Post("/v1/images/generations", fmt.Sprintf(`{"model":"sim","prompt":"number %d"}`, i)).WantStatus(502)
	}
	if b := p.Upstream("fake-0").Breaker; b == "closed" {
		t.Error("five different requests failed: the breaker is closed")
	}
	if n := p.Metric("penstock_upstream_generation_probes_total"); n != 0 {
		t.Errorf("%v generation probes", n)
	}
}
