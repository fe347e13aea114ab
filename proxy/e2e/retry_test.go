package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// retryTable lists engine answers, and their effects on the client and the other engine.
var retryTable = []struct {
	fault      string
	status     int // status for the client if every engine gives this answer
	kind, code string
	after      string // Retry-After; empty if there is none
	retried    bool   // another engine receives the call once
}{
	{"refuse", 502, "api_error", "upstream_unreachable", "", true},
	{"reset-before", 502, "api_error", "upstream_unreachable", "", true},
	{"eof-before", 502, "api_error", "upstream_unreachable", "", true},

	{"status=429", 429, "rate_limit_error", "capacity_full", "1", true},
	{"status=429;retry-after=12", 429, "rate_limit_error", "capacity_full", "12", true},
	{"status=503", 503, "api_error", "no_healthy_route", "1", true},
	{"status=503;retry-after=3600", 503, "api_error", "no_healthy_route", "60", true},
	{"status=529", 503, "api_error", "no_healthy_route", "1", true},
	{"status=502", 502, "api_error", "upstream_failed", "", true},
	{"status=404", 503, "api_error", "no_healthy_route", "1", true},

	{"status=500", 502, "api_error", "upstream_failed", "", true},
	{"status=501", 502, "api_error", "upstream_failed", "", true},
	{"status=505", 502, "api_error", "upstream_failed", "", false},
	{"status=504", 504, "timeout_error", "generation_timeout", "5", false},
	{"blackhole", 504, "timeout_error", "generation_timeout", "5", false},

	{"status=400", 400, "invalid_request_error", "rejected_by_engine", "", false},
	{"status=422", 400, "invalid_request_error", "rejected_by_engine", "", false},
	{"status=413", 413, "request_too_large", "request_too_large", "", false},

	{"status=401", 502, "api_error", "upstream_auth", "", false},
	{"status=403", 502, "api_error", "upstream_auth", "", false},
	{"status=402", 502, "api_error", "upstream_bad_response", "", false},
	{"status=415", 502, "api_error", "upstream_bad_response", "", false},
	{"status=424", 502, "api_error", "upstream_bad_response", "", false},
	{"status=418", 502, "api_error", "upstream_bad_response", "", false},
	{"redirect", 502, "api_error", "upstream_bad_response", "", false},
	{"status-101", 502, "api_error", "upstream_bad_response", "", false},
	{"no-content", 502, "api_error", "upstream_bad_response", "", false},
}

// TestUnreachableSaysHow checks that an engine is not reported as "unreachable" if it accepts a
// request and then breaks the connection.
func TestUnreachableSaysHow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ fault, message, reason string }{
		{"eof-before", "The engine closed the connection before its answer.", "closed_before_answer"},
		{"reset-before", "The engine's connection was reset before its answer.", "reset"},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := rig.Start(t, rig.Setup{Upstream: rig.QuietProbes})
			failNewConns(p.Engines[0], c.fault)
			if e := p.Post(chatPath, p.ChatRequest("")).WantError(502, "api_error", "upstream_unreachable"); e.Message != c.message {
				t.Errorf("the client is told %q, want %q", e.Message, c.message)
			}
			want := fmt.Sprintf(`"code":"upstream_unreachable","cause":%q`, c.reason)
			rig.WaitFor(t, rig.WaitTimeout, "the log has "+want, func() bool { return strings.Contains(p.Log.String(), want) })
		})
	}
}

// failNewConns makes an engine fail on new connections.
func failNewConns(e *sim.Engine, fault string) {
	e.SetFault(sim.Fault{Spec: fault})
	e.DropConns(1, false)
}

// TestRetryTable checks every row with two failing engines, and with one failing and one working
// engine.
func TestRetryTable(t *testing.T) {
	t.Parallel()
	for _, row := range retryTable {
		s := rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin"}
		if row.fault == "blackhole" {
			s.Timeouts = "first_event: 2s, answer: 2s" // enough for a working engine, even on a busy machine
		}
		t.Run("alike/"+row.fault, func(t *testing.T) {
			t.Parallel()
			both(t, s, func(t *testing.T, p *penstock, body string) {
				failNewConns(p.Engines[0], row.fault)
				failNewConns(p.Engines[1], row.fault)
				r := p.Post(chatPath, body)
				r.WantError(row.status, row.kind, row.code)
				if after := r.Header.Get("Retry-After"); after != row.after {
					t.Errorf("Retry-After %q, want %q", after, row.after)
				}
				want := map[bool]float64{false: 1, true: 2}[row.retried]
				if n := p.Metric("penstock_upstream_attempts_total"); n != want {
					t.Errorf("%v engines were tried, want %v", n, want)
				}
			})
		})
		t.Run("beside a good one/"+row.fault, func(t *testing.T) {
			t.Parallel()
			both(t, s, func(t *testing.T, p *penstock, body string) {
				failNewConns(p.Engines[0], row.fault)
				statuses := map[int]int{}
				for range 2 { // round robin: one of the two calls reaches the failing engine
					statuses[p.Post(chatPath, body).Status]++
				}
				switch {
				case row.retried && statuses[200] != 2:
					t.Errorf("what may be retried: %v", statuses)
				case !row.retried && (statuses[200] != 1 || statuses[row.status] != 1):
					t.Errorf("what must not be retried: %v", statuses)
				}
			})
		})
	}
}

// TestRetryFindsNoRoom checks that the client receives the first failure if the other engine is
// full or down, or if the retry budget is exhausted.
func TestRetryFindsNoRoom(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		fault  string
		status int
	}{{"status=429;retry-after=4", 429}, {"status=503;retry-after=4", 503}, {"status=502", 502}, {"reset-before", 502}} {
		t.Run("full/"+row.fault, func(t *testing.T) {
			t.Parallel()
			both(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: "concurrency: 1, " + rig.QuietProbes}, func(t *testing.T, p *penstock, body string) {
				held := p.OpenStream(chatPath, p.ChatRequest(`"stream":true,"sim":{"tokens":1000,"delay_ms":50}`))
				defer held.Disconnect()
				held.Next()
				for _, e := range p.Engines {
					if e.Stats().Running == 0 {
						e.SetFault(sim.Fault{Spec: row.fault})
					}
				}
				r := p.Post(chatPath, body).WantStatus(row.status)
				if row.status != 502 && r.Header.Get("Retry-After") != "4" {
					t.Errorf("Retry-After %q: that is not the engine's", r.Header.Get("Retry-After"))
				}
			})
		})
		t.Run("alone/"+row.fault, func(t *testing.T) {
			t.Parallel()
			both(t, rig.Setup{Upstream: rig.QuietProbes}, func(t *testing.T, p *penstock, body string) {
				p.Engines[0].SetFault(sim.Fault{Spec: row.fault})
				p.Post(chatPath, body).WantStatus(row.status)
				if n := p.Metric("penstock_upstream_attempts_total"); n != 1 {
					t.Errorf("%v tries at the only engine", n)
				}
			})
		})
	}
}

// TestRetryOnce checks that a call tries only two of many unreachable engines.
func TestRetryOnce(t *testing.T) {
	t.Parallel()
	both(t, rig.Setup{Engines: append(rig.TwoEngines(), rig.TwoEngines()...), Upstream: rig.QuietProbes}, func(t *testing.T, p *penstock, body string) {
		for _, e := range p.Engines {
			e.Unlisten()
			e.DropConns(1, false)
		}
		p.Post(chatPath, body).WantError(502, "api_error", "upstream_unreachable")
		if n := p.Metric("penstock_upstream_attempts_total"); n != 2 {
			t.Errorf("%v engines were tried, want 2", n)
		}
	})
}

// TestRetryTakesANewConnection checks that a retry uses a new connection, because a keep-alive
// connection may have just died.
func TestRetryTakesANewConnection(t *testing.T) {
	t.Parallel()
	both(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin"}, func(t *testing.T, p *penstock, body string) {
		// The engine answers a request, and closes the connection when it receives the next one.
		p.Engines[1].SetFault(sim.Fault{Spec: "keepalive-close;when=next"})
		for range 4 {
			p.Post(chatPath, body).WantStatus(200)
		}
		p.Engines[0].SetFault(sim.Fault{Spec: "status=503", Count: 1})
		for range 2 {
			p.Post(chatPath, body).WantStatus(200)
		}
	})
}

// TestEnginesOwnWords checks that a profile's rules for engine statuses take precedence over the
// table.
func TestEnginesOwnWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		profile, fault string
		status         int
		sends          float64
	}{
		{"llamacpp", "status=500;type=server_error;message=Failed to parse tools: no name", 400, 1},
		{"llamacpp", "status=500;type=server_error;message=Failed to parse tool call arguments as JSON: parse error", 400, 1},
		{"llamacpp", "status=500;type=server_error;message=out of memory", 502, 2},
		{"llamacpp", "status=501;type=not_supported_error;message=This server does not support embeddings", 400, 1},
		{"vllm", "status=503;type=QueueOverflowError;message=The queue is full", 503, 2},
	} {
		t.Run(fmt.Sprintf("%s/%.30s", c.profile, c.fault), func(t *testing.T) {
			t.Parallel()
			e := sim.Options{Profile: c.profile}
			p := start(t, rig.Setup{Engines: []sim.Options{e, e}, Config: fmt.Sprintf(`
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams:
  - { name: up-0, url: "{{up-0}}", engine: %[1]s, %[2]s }
  - { name: up-1, url: "{{up-1}}", engine: %[1]s, %[2]s }
models: [{ id: sim, deployments: [{ upstream: up-0 }, { upstream: up-1 }] }]
`, c.profile, rig.QuietProbes)})
			for _, e := range p.Engines {
				e.SetFault(sim.Fault{Spec: c.fault})
			}
			p.Post(chatPath, p.ChatRequest("")).WantStatus(c.status)
			if n := p.Metric("penstock_upstream_attempts_total"); n != c.sends {
				t.Errorf("%v tries, want %v", n, c.sends)
			}
		})
	}
}

// TestLongComplaint checks that the edge understands an error that repeats the request. Engines
// that use FastAPI send such errors.
func TestLongComplaint(t *testing.T) {
	t.Parallel()
	echo := strings.Repeat(rig.Canary+" ", 20_000)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprintf(w, `{"error":{"input":%q,"message":"temperature is too warm","type":"BadRequestError","code":422}}`, echo)
		}
	}))
	defer engine.Close()
	p := start(t, rig.Setup{Engines: []sim.Options{{}}, Config: `
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "` + engine.URL + `", engine: openai }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`})
	r := p.Post(chatPath, p.ChatRequest(""))
	if e := r.WantError(400, "invalid_request_error", "rejected_by_engine"); !strings.Contains(e.Message, "temperature is too warm") || strings.Contains(r.Body, rig.Canary) {
		t.Errorf("the client reads %.300q", r.Body)
	}
}
