package upstreams

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
)

// scriptedEngine answers a prober's requests inside a synctest bubble.
type scriptedEngine struct {
	mu    sync.Mutex
	pages map[string]string
	other string        // page that every second read of /metrics returns, as if from another engine
	code  int           // status of /health; 0 means connection refused
	slow  time.Duration // delay of every response
	load  time.Duration // delay of /metrics
	well  time.Duration // delay of /health
	seen  []time.Time   // times of the requests for /health
	asked map[string]int
}

var errRefused = &http1.Failure{Kind: http1.KindUnreachable, Reason: http1.ReasonConnect, Err: errors.New("refused")}

func (e *scriptedEngine) get(ctx context.Context, path string, timeout time.Duration) (http1.Page, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.asked == nil {
		e.asked = map[string]int{}
	}
	e.asked[path]++
	if path == "/health" {
		e.seen = append(e.seen, time.Now())
	}
	slow := e.slow
	if path == "/metrics" {
		slow = max(slow, e.load)
	}
	if path == "/health" {
		slow = max(slow, e.well)
	}
	if slow > 0 {
		wait := min(slow, timeout)
		e.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		e.mu.Lock()
		if slow > timeout || ctx.Err() != nil {
			return http1.Page{}, &http1.Failure{Kind: http1.KindTimeout, Clock: http1.TimeoutAnswer, Reason: http1.ReasonTimeout}
		}
	}
	switch body, ok := e.pages[path]; {
	case e.code == 0:
		return http1.Page{}, errRefused
	case path == "/health":
		return http1.Page{Status: e.code}, nil
	case path == "/metrics" && e.other != "" && e.asked[path]%2 == 0:
		return http1.Page{Status: 200, Body: []byte(e.other)}, nil
	case ok:
		return http1.Page{Status: 200, Body: []byte(body)}, nil
	}
	return http1.Page{Status: 404}, nil
}

func (e *scriptedEngine) set(code int, slow time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.code, e.slow, e.seen = code, slow, nil
}

// pauses returns the pauses between the health probes since the last call to set.
func (e *scriptedEngine) pauses() []time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []time.Duration
	for i := 1; i < len(e.seen); i++ {
		out = append(out, e.seen[i].Sub(e.seen[i-1]))
	}
	return out
}

// probedUpstream returns an upstream whose prober probes a scriptedEngine.
func probedUpstream(t *testing.T, e *scriptedEngine, engine string, models ...string) *Upstream {
	t.Helper()
	return probedUpstreamIn(t, newTestSet(t, Options{}), e, engine, models...)
}

// probedUpstreamIn is like probedUpstream, but uses the given set.
func probedUpstreamIn(t *testing.T, s *Set, e *scriptedEngine, engine string, models ...string) *Upstream {
	t.Helper()
	var deployed []config.Model
	for _, m := range models {
		deployed = append(deployed, config.Model{ID: m, Deployments: []config.Deployment{{Upstream: "a"}}})
	}
	p, err := s.PlanChanges([]config.Upstream{{Name: "a", URL: "http://127.0.0.1:1", Engine: engine}}, deployed)
	if err != nil {
		t.Fatal(err)
	}
	u := p.Upstream("a")[0]
	u.probeControl.replace(newProber(u, e.get, func() {}))
	u.probeControl.prober.start(func() {})
	prober := u.probeControl.currentProber()
	t.Cleanup(func() { prober.stop(); <-prober.done })
	return u
}

// sleepAndSettle sleeps in a synctest bubble, and then waits until all goroutines are blocked.
// Otherwise, a goroutine that wakes at the same moment could run before or after the next step of
// the test.
func sleepAndSettle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func within(d, low, high time.Duration) bool { return d >= low && d <= high }

func TestProbeSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200, pages: map[string]string{"/metrics": "vllm:num_requests_running 3\n"}}
		u := probedUpstream(t, e, "vllm")
		synctest.Wait()
		if u.State() != StateUp {
			t.Fatalf("state %v after the first good probe", u.State())
		}
		select {
		case <-u.probeControl.firstVerdict:
		default:
			t.Error("the first verdict was not told")
		}
		if r, ok := u.reports.newest(time.Now()); !ok || r.Running != 3 || r.Source != "/metrics" {
			t.Errorf("report = %+v, %t; want 3 running from /metrics", r, ok)
		}
		sleepAndSettle(60 * time.Second)
		pauses := e.pauses()
		if len(pauses) < 27 || len(pauses) > 34 {
			t.Errorf("%d probes in a minute", len(pauses))
		}
		for _, p := range pauses {
			if !within(p, 1800*time.Millisecond, 2200*time.Millisecond) {
				t.Errorf("pause between probes = %v, want 1.8 s to 2.2 s", p)
			}
		}
		slices.Sort(pauses)
		if pauses[0] == pauses[len(pauses)-1] {
			t.Error("no jitter")
		}
		if lists, probes := e.asked["/v1/models"], e.asked["/health"]; lists > probes/probesPerModelRead+2 {
			t.Errorf("%d lists for %d probes", lists, probes)
		}
	})
}

// TestProbeFreezeAndReturn checks that a frozen engine goes down after three probes have timed out,
// in less than three intervals. While the engine is down, it is probed less often. After a
// successful probe, the next probe follows soon.
func TestProbeFreezeAndReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200}
		u := probedUpstream(t, e, "vllm")
		synctest.Wait()
		e.set(200, time.Hour)
		frozen := time.Now()
		for u.State() == StateUp {
			sleepAndSettle(50 * time.Millisecond)
		}
		if took := time.Since(frozen); took > 8*time.Second {
			t.Errorf("down after %v", took)
		}
		sleepAndSettle(time.Minute)
		for _, p := range e.pauses()[8:] {
			if p > 5500*time.Millisecond || p < 3*time.Second {
				t.Errorf("pause %v while down", p)
			}
		}
		e.set(200, 0)
		thawed := time.Now()
		for u.State() != StateUp {
			sleepAndSettle(50 * time.Millisecond)
		}
		if took := time.Since(thawed); took > 6*time.Second {
			t.Errorf("back after %v", took)
		}
		synctest.Wait()
		if p := e.pauses(); len(p) == 0 || p[0] > 600*time.Millisecond {
			t.Errorf("pauses on return %v", p)
		}
	})
}

// TestProbeOnPassiveEvidence checks that a single call that cannot reach the engine immediately
// triggers a probe, and that the probe decides.
func TestProbeOnPassiveEvidence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200}
		u := probedUpstream(t, e, "vllm")
		synctest.Wait()
		sleepAndSettle(500 * time.Millisecond)
		e.set(0, 0)
		l, _ := u.TryLease("", PoolText, 0, time.Now())
		l.Release(OutcomeUnreachable)
		if u.State() != StateUp {
			t.Error("down by a single call")
		}
		sleepAndSettle(2 * minRequestedProbePause)
		if u.State() != StateDown {
			t.Errorf("state %v after the probe that the call asked for", u.State())
		}
	})
}

// TestProbeRequestsAreMerged checks that twenty calls that cannot reach the engine trigger only one
// additional probe.
func TestProbeRequestsAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200}
		u := probedUpstream(t, e, "vllm")
		synctest.Wait()
		e.set(200, 0)
		for range 20 {
			u.probeControl.prober.probeNow()
		}
		sleepAndSettle(time.Second)
		e.mu.Lock()
		defer e.mu.Unlock()
		if n := len(e.seen); n < 1 || n > 2 {
			t.Errorf("%d probes, want 1 or 2", n)
		}
	})
}

// TestProbeModels checks that every probe reads the model list while a routed model is missing. If
// a model disappears, only the target for that model goes out of service.
func TestProbeModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		both := `{"data":[{"id":"m","max_model_len":4096},{"id":"n"}]}`
		e := &scriptedEngine{code: 200, pages: map[string]string{"/v1/models": both}}
		u := probedUpstream(t, e, "vllm", "m", "n")
		synctest.Wait()
		if !serves(t, u, "m") || !serves(t, u, "n") || u.Models.MaxContext("m") != 4096 {
			t.Fatal("not listed")
		}
		page := func(s string) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.pages["/v1/models"] = s
		}
		page(`{"data":[{"id":"n"}]}`)
		sleepAndSettle((probesPerModelRead + 1) * 2200 * time.Millisecond)
		if serves(t, u, "m") || !serves(t, u, "n") || u.State() != StateUp {
			t.Error("m, n, state:", serves(t, u, "m"), serves(t, u, "n"), u.State())
		}
		if got := u.Status(time.Now()).Missing; !slices.Equal(got, []string{"m"}) {
			t.Errorf("Missing = %v, want m", got)
		}
		page(both)
		sleepAndSettle(2200 * time.Millisecond)
		if !serves(t, u, "m") {
			t.Error("not found with the next probe")
		}
		page("<html>")
		sleepAndSettle((maxListFailures + 1) * (probesPerModelRead + 1) * 2200 * time.Millisecond)
		if !serves(t, u, "anything") {
			t.Error("a list that cannot be read any more still counts")
		}
	})
}

// TestProbeReadsAliases checks that an alias that the engine accepts counts as listed.
func TestProbeReadsAliases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200, pages: map[string]string{
			"/v1/models": `{"data":[{"id":"long-name","aliases":["short","",7,"long-name"],"meta":{"n_ctx":2048},"status":{"value":"loaded"}}]}`,
			"/props":     `{"role":"router"}`,
		}}
		u := probedUpstream(t, e, "llamacpp-router", "short", "other")
		synctest.Wait()
		if !serves(t, u, "short") || !serves(t, u, "long-name") || serves(t, u, "other") || u.Models.MaxContext("short") != 2048 {
			t.Errorf("short %t, long-name %t, other %t, context %d", serves(t, u, "short"), serves(t, u, "long-name"), serves(t, u, "other"), u.Models.MaxContext("short"))
		}
		if got := u.Models.ListedModels(); len(got) != 1 || !slices.Equal(got[0].Aliases, []string{"short", ""}) {
			t.Errorf("models = %+v, want one with the alias short", got)
		}
	})
}

// TestProbeRecognises checks that `auto` detects the engine, and detects it again when a different
// engine returns.
func TestProbeRecognises(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200, pages: map[string]string{
			"/v1/models": `{"data":[{"id":"m","owned_by":"llamacpp"}]}`, "/props": `{"total_slots":3,"default_generation_settings":{"n_ctx":2048}}`,
		}}
		u := probedUpstream(t, e, "auto")
		synctest.Wait()
		if u.Engine().Name() != "llamacpp" || u.Limits() != (Limits{true, 3, 3, 3, engine.SlotsReported, false}) {
			t.Fatalf("engine %s, limits %+v; want llamacpp with 3 reported slots", u.Engine().Name(), u.Limits())
		}
		if got := u.Cache.CapacityTokens(); got != 3*2048 {
			t.Errorf("a cache of %d tokens, want the contexts of three slots", got)
		}
		e.set(0, 0)
		sleepAndSettle(20 * time.Second)
		e.mu.Lock()
		e.pages = map[string]string{"/v1/models": `{"data":[{"id":"m","owned_by":"vllm"}]}`}
		e.mu.Unlock()
		e.set(200, 0)
		sleepAndSettle(20 * time.Second)
		if u.State() != StateUp || u.Engine().Name() != "vllm" || u.Limits().Source != engine.SlotsOfProfile {
			t.Errorf("state %v, engine %s, limits %+v; want up, vllm and the profile's slots", u.State(), u.Engine().Name(), u.Limits())
		}
	})
}

// TestProbeFindsVariant checks that a configured engine may be detected as one of its variants.
func TestProbeFindsVariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 200, pages: map[string]string{"/": "<h1>Whisper.cpp Server</h1><h2>/v1/audio/transcriptions</h2>"}}
		u := probedUpstream(t, e, "whisper")
		synctest.Wait()
		if got := u.Engine().Path(config.OpTranscriptions); got != "/v1/audio/transcriptions" {
			t.Errorf("path = %s, want /v1/audio/transcriptions", got)
		}
	})
}

// TestProbeGenericServer checks that a server without any of the known pages is up as long as it
// responds.
func TestProbeGenericServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &scriptedEngine{code: 404}
		u := probedUpstream(t, e, "auto")
		synctest.Wait()
		if u.State() != StateUp || u.Engine().Name() != "openai" || !serves(t, u, "m") {
			t.Errorf("state %v, engine %s; want up and openai with model m", u.State(), u.Engine().Name())
		}
	})
}
