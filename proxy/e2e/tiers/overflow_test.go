package tiers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

const (
	chatPath    = "/v1/chat/completions"
	endlessBody = `"stream":true,"sim":{"tokens":100000,"delay_ms":200}`
)

// hosted makes a simulated engine look like a hosted API that uses TLS, a path prefix and a key.
func hosted(t *testing.T, e *sim.Engine) string {
	t.Helper()
	to, err := url.Parse(e.URL())
	if err != nil {
		t.Fatal(err)
	}
	engine := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	s := httptest.NewTLSServer(http.StripPrefix("/openai", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer the-hosted-key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		engine.ServeHTTP(w, r)
	})))
	t.Cleanup(s.Close)
	return s.URL + "/openai"
}

// overflowEdge is an edge with two engines: an in-house engine with two slots, and a hosted engine for
// overflow.
type overflowEdge struct {
	*rig.LocalEdge
	house, cloud *sim.Engine
}

// start runs an edge whose model overflows from the in-house engine to the cloud.
func start(t *testing.T, when, model string) *overflowEdge {
	t.Helper()
	cloud := rig.StartEngine(t, sim.Options{Models: []string{"hosted-model"}, Slots: 64, Record: true})
	p := &overflowEdge{cloud: cloud, LocalEdge: rig.Start(t, rig.Setup{
		Engines: []sim.Options{{Slots: 64, Record: true}},
		Config: fmt.Sprintf(`timeouts: { linger: 0s, connect: 10s }
retry: { budget: 100%% }
keys:
  - { id: tester, hash: "{{hash}}" }
upstreams:
  - { name: house, url: "{{up-0}}", engine: sim, concurrency: 2, probe: { interval: 200ms, timeout: 15s, fall: 1, rise: 1 } }
  - { name: cloud, url: %q, engine: openai, concurrency: 64, api_key: the-hosted-key, tls: { insecure: true }, probe: { timeout: 15s } }
models:
  - id: sim
    deployments: [{ upstream: house }, { upstream: cloud, served: hosted-model, tier: 1, when: %s }]
    %s
`, hosted(t, cloud), when, model),
	})}
	p.house = p.Engines[0]
	return p
}

// hold fills the in-house slots until release is called.
func (p *overflowEdge) hold() (release func()) {
	p.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var streams []*http.Response
	for range 2 {
		streams = append(streams, p.OpenResponse(ctx, "POST", chatPath, p.ChatRequest(endlessBody)))
	}
	return sync.OnceFunc(func() {
		cancel()
		for _, s := range streams {
			_ = s.Body.Close()
		}
		rig.WaitFor(p.T, rig.WaitTimeout, "the slots are free", func() bool { return p.active() < 2 })
	})
}

func (p *overflowEdge) active() (n int) {
	for _, u := range p.Status().Upstreams {
		for _, pool := range u.Pools {
			n += pool.Active
		}
	}
	return n
}

// TestOverflow checks that a call that finds the in-house engine full is answered by the hosted
// API, which is then reported as the upstream. Once the in-house engine has a free slot, it must
// answer the next call.
func TestOverflow(t *testing.T) {
	t.Parallel()
	p := start(t, "full", "")
	release := p.hold()
	defer release()
	for _, body := range []string{p.ChatRequest(""), p.ChatRequest(`"stream":true`)} {
		if r := p.Post(chatPath, body).WantStatus(200); !strings.Contains(r.Body, `"model":"sim"`) {
			t.Errorf("the model is %s", r.Body)
		}
	}
	if last := p.cloud.Stats().LastRequest; !strings.Contains(string(last.Body), `"hosted-model"`) || strings.Contains(string(last.Body), `"sim"`) {
		t.Errorf("the hosted API got %s", last.Body)
	}
	// A call is counted after the client has received the complete answer.
	rig.WaitFor(t, rig.WaitTimeout, "two calls have overflowed", func() bool {
		return p.Metric("penstock_overflow_calls_total", "model", "sim", "tier", "1") == 2
	})
	if tier := p.Metric("penstock_model_tier", "model", "sim"); tier != 0 {
		t.Errorf("tier %v serves", tier)
	}
	if m := p.Catalog()[0]; m.Capacity.Total != 2 || !m.IsReady {
		t.Errorf("the catalog has %+v", m)
	}
	m := p.Status().Models[0]
	if len(m.Tiers) != 2 || !m.Tiers[0].Serving || m.Tiers[1].When != "full" || m.Tiers[1].Pools["text"].Total != 64 || m.Pools["text"].Total != 2 {
		t.Errorf("the state page has %+v", m)
	}
	release()
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	got := p.AccessLinesWhenIdle()
	if n := 0; len(got) == 5 {
		for _, c := range got {
			if n += c.Tier; (c.Tier == 1) != (c.Upstream == "cloud") {
				t.Errorf("the log has %+v", c)
			}
		}
		if n != 2 || got[4].Upstream != "house" {
			t.Errorf("%d calls of tier 1, and at last %+v", n, got[4])
		}
	} else {
		t.Errorf("%d calls", len(got))
	}
}

// TestOverflowWaits checks that, if there is a queue, a call overflows only after its wait in the
// queue has timed out.
func TestOverflowWaits(t *testing.T) {
	t.Parallel()
	p := start(t, "full", "queue: { depth: 4, wait: 500ms }")
	release := p.hold()
	defer release()
	for _, more := range []string{"", `"stream":true`} {
		p.Post(chatPath, p.ChatRequest(more)).WantStatus(200)
	}
	release()
	overflowed := 0
	for _, c := range p.AccessLinesWhenIdle() {
		if c.Tier == 1 {
			overflowed++
			if c.QueueMS < 400 { // the timer starts slightly before the measurement
				t.Errorf("a call overflowed after %v ms", c.QueueMS)
			}
		}
	}
	if overflowed != 2 {
		t.Errorf("%d calls overflowed", overflowed)
	}
}

// TestFullQueueOverflows checks that a call that finds the queue full overflows immediately, while
// the waiting call continues to wait.
func TestFullQueueOverflows(t *testing.T) {
	t.Parallel()
	p := start(t, "full", "queue: { depth: 1, wait: 10m }")
	release := p.hold()
	defer release()
	waiting := func() bool { return p.Metric("penstock_model_queue_waiting", "model", "sim") == 1 }
	var waits sync.WaitGroup
	waits.Go(func() { p.Post(chatPath, p.ChatRequest("")).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "one waits", waiting)
	p.Post(chatPath, p.ChatRequest("")).WantStatus(200)
	if !waiting() {
		t.Error("the call that waited does so no more")
	}
	release()
	waits.Wait()
	tiers := 0
	for _, c := range p.AccessLinesWhenIdle() {
		tiers += c.Tier
	}
	if tiers != 1 {
		t.Errorf("%d calls overflowed", tiers)
	}
}

// TestSpareTier checks that a tier that is used only if the in-house engine is down does not
// receive overflow.
func TestSpareTier(t *testing.T) {
	t.Parallel()
	p := start(t, "down", "queue: { depth: 8, wait: 60s }")
	release := p.hold()
	var waits sync.WaitGroup
	waits.Go(func() { p.Post(chatPath, p.ChatRequest("")).WantStatus(200) })
	rig.WaitFor(t, rig.WaitTimeout, "one waits", func() bool { return p.Metric("penstock_model_queue_waiting", "model", "sim") == 1 })
	if n := p.cloud.Stats().Requests; n != 0 {
		t.Errorf("%d calls overflowed", n)
	}
	// The spare tier must receive the waiting call when the in-house engine fails.
	p.house.Unlisten()
	p.house.DropConns(1, true)
	waits.Wait()
	// The line of the call that the in-house engine has lost may be written after the waiting
	// call's line.
	lines := p.AccessLinesWhenIdle()
	if !slices.ContainsFunc(lines, func(l rig.AccessLine) bool { return l.Upstream == "cloud" && l.QueueMS > 0 }) {
		t.Errorf("the log has %+v, want a call that waited and reached the cloud", lines)
	}
	release()
	if err := p.house.Relisten(); err != nil {
		t.Fatal(err)
	}
}

// TestHouseFalls stops and restarts the in-house engine under load. It checks that no client
// notices, and that the cloud receives calls only while the in-house engine is down.
func TestHouseFalls(t *testing.T) {
	t.Parallel()
	p := start(t, "down", "queue: { depth: 64, wait: 60s }")
	var clients sync.WaitGroup
	var ended atomic.Bool
	for range 6 {
		clients.Go(func() {
			for !ended.Load() {
				p.Post(chatPath, p.ChatRequest(`"sim":{"tokens":3,"delay_ms":5}`)).WantStatus(200)
			}
		})
	}
	completed := func(e *sim.Engine, n int64) func() bool {
		n += e.Stats().Completed
		return func() bool { return e.Stats().Completed >= n }
	}
	rig.WaitFor(t, rig.WaitTimeout, "the house works", completed(p.house, 20))
	if n := p.cloud.Stats().Requests; n != 0 {
		t.Errorf("the cloud has %d calls while the house works", n)
	}
	p.house.Unlisten()
	p.house.DropConns(1, true)
	rig.WaitFor(t, rig.WaitTimeout, "the cloud works", completed(p.cloud, 20))
	rig.WaitFor(t, rig.WaitTimeout, "the house is out", func() bool { return p.Metric("penstock_model_tier", "model", "sim") == 1 })
	if err := p.house.Relisten(); err != nil {
		t.Fatal(err)
	}
	rig.WaitFor(t, rig.WaitTimeout, "the house is back", func() bool { return p.Metric("penstock_model_tier", "model", "sim") == 0 })
	overflowed, done := p.cloud.Stats().Requests, p.house.Stats().Completed
	rig.WaitFor(t, rig.WaitTimeout, "only the house works", func() bool {
		// The first call to the in-house engine may be the breaker's trial.
		if n := p.cloud.Stats().Requests; n != overflowed {
			overflowed, done = n, p.house.Stats().Completed
		}
		return p.house.Stats().Completed >= done+20
	})
	ended.Store(true)
	clients.Wait()
}

// TestBusyIsNotDown checks that, if a tier has `when: down`, the client receives a busy engine's
// refusal, and no call goes to this tier.
func TestBusyIsNotDown(t *testing.T) {
	t.Parallel()
	p := start(t, "down", "")
	p.house.SetFault(sim.Fault{Spec: "status=429"})
	p.Post(chatPath, p.ChatRequest("")).WantError(429, "rate_limit_error", "capacity_full")
	p.Post(chatPath, p.ChatRequest(`"stream":true`)).WantError(429, "rate_limit_error", "capacity_full")
	for _, c := range p.AccessLinesWhenIdle() {
		if c.Tier != 0 {
			t.Errorf("a call went to tier %d", c.Tier)
		}
	}
}
