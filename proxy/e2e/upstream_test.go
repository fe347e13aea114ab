package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 1 to 11 and 18 to 32 of the fault matrix: an engine fails before the client has seen a byte, so the client gets a
// clean status. Rows 12 to 17 are in broken_test.go. Each test is named by its row.

// quietProbes keeps probes out of what a test counts; the first one has passed when start returns.
const quietProbes = "probe: { interval: 1h }"

// ways are a plain request and a stream: nearly every row holds for both.
var ways = []struct{ name, more string }{{"json", ""}, {"stream", `"stream":true`}}

// both runs f for a plain request and for a stream, each with an edge and engines of its own.
func both(t *testing.T, s setup, f func(t *testing.T, p *penstock, body string)) {
	t.Helper()
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, s)
			f(t, p, p.chat(w.more))
		})
	}
}

const chatPath = "/v1/chat/completions"

func two() []sim.Options { return []sim.Options{{}, {}} }

// wantElsewhere checks that a request that may be tried elsewhere is answered by the good engine, whichever was asked first.
func wantElsewhere(t *testing.T, p *penstock, body string, n int) {
	t.Helper()
	for range n {
		p.post(chatPath, body).wantStatus(200)
	}
	for _, l := range p.calls() {
		if l.Attempts > 2 {
			t.Errorf("%d attempts", l.Attempts)
		}
	}
}

func TestFault01_ConnectionRefused(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
			p.engines[0].Unlisten()
			p.engines[0].Drop(1, false)
			r := p.post(chatPath, body)
			r.wantError(502, "api_error", "upstream_unreachable")
			if r.took > time.Second {
				t.Errorf("took %v", r.took)
			}
			waitFor(t, patience, "no healthy route", func() bool { return p.post(chatPath, body).status == 503 })
			p.post(chatPath, body).wantError(503, "api_error", "no_healthy_route")
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		both(t, setup{engines: two(), upstream: quietProbes, model: "policy: round_robin"}, func(t *testing.T, p *penstock, body string) {
			p.engines[0].Unlisten()
			p.engines[0].Drop(1, false)
			wantElsewhere(t, p, body, 6)
			if n := p.metric("penstock_upstream_attempts_total", `upstream="up-0"`, `result="unreachable"`); n < 1 || n > 2 {
				t.Errorf("%v attempts at the dead engine", n)
			}
		})
	})
}

func TestFault02_NameDoesNotResolve(t *testing.T) {
	t.Parallel()
	// Go answers for .onion by itself (RFC 7686), so that no resolver outside of this machine is asked.
	const dead = "http://engine.onion:8000"
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{cold: true, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: dead, url: "` + dead + `", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: dead }] }]
`})
		for range 3 {
			r := p.post(chatPath, p.chat(""))
			if r.took > time.Second {
				t.Errorf("took %v", r.took)
			}
			if r.status == 502 {
				r.wantError(502, "api_error", "upstream_unreachable")
			} else {
				r.wantError(503, "api_error", "no_healthy_route")
			}
		}
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{cold: true, config: `
timeouts: { linger: 0s }
keys: [{ id: tester, hash: "{{hash}}" }]
upstreams: [{ name: dead, url: "` + dead + `", engine: sim }, { name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: dead }, { upstream: up-0 }] }]
`})
		wantElsewhere(t, p, p.chat(""), 5)
	})
}

func TestFault03_AcceptsAndResets(t *testing.T) {
	t.Parallel()
	both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
		p.engines[0].SetFault(sim.Fault{Spec: "refuse"})
		p.engines[0].Drop(1, false)
		p.post(chatPath, body).wantError(502, "api_error", "upstream_unreachable")
	})
}

func TestFault04_ClosedBeforeAByte(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"reset-before", "eof-before"} {
		t.Run(fault+"/alone", func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				p.post(chatPath, body).wantError(502, "api_error", "upstream_unreachable")
				if n := p.engines[0].Stats().Requests; n > 2 {
					t.Errorf("the engine was asked %d times", n)
				}
			})
		})
		t.Run(fault+"/other", func(t *testing.T) {
			t.Parallel()
			both(t, setup{engines: two(), upstream: quietProbes, model: "policy: round_robin"}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				wantElsewhere(t, p, body, 4)
			})
		})
		t.Run(fault+"/both", func(t *testing.T) {
			t.Parallel()
			both(t, setup{engines: two(), upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				p.engines[1].SetFault(sim.Fault{Spec: fault})
				p.post(chatPath, body).wantError(502, "api_error", "upstream_unreachable")
				if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n != 2 {
					t.Errorf("%d requests upstream, want 2", n)
				}
			})
		})
	}
}

func TestFault05_NotHTTP(t *testing.T) {
	t.Parallel()
	faults := []string{"head-cut", "head-cut;reset=1", "status-101", "status-999", "http09"}
	for _, kind := range strings.Fields("binary nocolon nostatus version space badlength negative nul encoding") {
		faults = append(faults, "garbage-head;kind="+kind)
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				wantBadResponse(t, p, fault, body)
			})
		})
	}
}

// wantBadResponse plays a fault after which the connection must not be used again, and then a good request.
func wantBadResponse(t *testing.T, p *penstock, fault, body string) {
	t.Helper()
	e := p.engines[0]
	e.SetFault(sim.Fault{Spec: fault, Count: 1})
	before := e.Stats().Requests
	p.post(chatPath, body).wantError(502, "api_error", "upstream_bad_response")
	if n := e.Stats().Requests - before; n != 1 {
		t.Errorf("%d requests upstream, want 1", n)
	}
	accepted := e.Stats().Accepted
	p.post(chatPath, body).wantStatus(200)
	if e.Stats().Accepted == accepted {
		t.Error("the connection was used again")
	}
}

func TestFault06_Blackhole(t *testing.T) {
	t.Parallel()
	both(t, setup{engines: two(), upstream: quietProbes, timeouts: "first_event: 300ms, answer: 300ms"}, func(t *testing.T, p *penstock, body string) {
		for _, e := range p.engines {
			e.SetFault(sim.Fault{Spec: "blackhole"})
		}
		r := p.post(chatPath, body)
		r.wantError(504, "timeout_error", "generation_timeout")
		if r.took > 3*time.Second {
			t.Errorf("took %v", r.took)
		}
		if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n != 1 {
			t.Errorf("%d requests upstream, want 1: it may be generating", n)
		}
		waitFor(t, time.Second, "the engine is free", func() bool {
			return p.engines[0].Stats().Running+p.engines[1].Stats().Running == 0
		})
	})
}

func TestFault07_NeverReads(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 12 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes, timeouts: "first_event: 400ms, answer: 400ms"}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: "noread"})
				p.engines[0].Drop(1, false)
				body = strings.Replace(body, canary, canary+strings.Repeat("x", size), 1)
				r := p.post(chatPath, body)
				r.wantError(504, "timeout_error", "generation_timeout")
				if r.took > 4*time.Second {
					t.Errorf("took %v", r.took)
				}
			})
		})
	}
}

func TestFault08_HeaderDrips(t *testing.T) {
	t.Parallel()
	both(t, setup{upstream: quietProbes, timeouts: "first_event: 400ms, answer: 400ms"}, func(t *testing.T, p *penstock, body string) {
		p.engines[0].SetFault(sim.Fault{Spec: "slow-header;gap=50ms"})
		r := p.post(chatPath, body)
		r.wantError(504, "timeout_error", "generation_timeout")
		if r.took > 3*time.Second {
			t.Errorf("took %v: the clock is restarted by every byte", r.took)
		}
	})
}

func TestFault09_BodyDripsOrStalls(t *testing.T) {
	t.Parallel()
	for fault, timeouts := range map[string]string{
		"slow-body;gap=50ms": "answer: 500ms",
		"stall-after":        "idle: 200ms",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{upstream: quietProbes, timeouts: timeouts})
			p.engines[0].SetFault(sim.Fault{Spec: fault})
			r := p.post(chatPath, p.chat(""))
			r.wantError(504, "timeout_error", "generation_timeout")
			if r.took > 3*time.Second {
				t.Errorf("took %v", r.took)
			}
			waitFor(t, time.Second, "the engine is free", func() bool { return p.engines[0].Stats().Running == 0 })
		})
	}
}

func TestFault10_JSONCutShort(t *testing.T) {
	t.Parallel()
	faults := []string{"short-body", "chunked+chunk-cut", "cut-after", "reset-after", "invalid-json"}
	for _, kind := range strings.Fields("size negative huge nocrlf empty") {
		faults = append(faults, "chunked+bad-chunk;kind="+kind)
	}
	for _, fault := range faults {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{upstream: quietProbes})
			p.engines[0].SetFault(sim.Fault{Spec: fault})
			p.post(chatPath, p.chat("")).wantError(502, "api_error", "upstream_bad_response")
		})
	}
}

func TestFault11_Surplus(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"surplus", "surplus;kind=bytes", "two-content-length", "two-content-length;same=1", "te-and-cl"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				e := p.engines[0]
				e.SetFault(sim.Fault{Spec: fault, Count: 1})
				r := p.post(chatPath, body)
				if r.status != 200 {
					r.wantError(502, "api_error", "upstream_bad_response")
				}
				wantNoLeak(t, r.body)
				accepted := e.Stats().Accepted
				again := p.post(chatPath, body).wantStatus(200)
				wantNoLeak(t, again.body)
				if e.Stats().Accepted == accepted && fault != "two-content-length;same=1" {
					t.Error("the connection was used again")
				}
			})
		})
	}
}

func TestFault18_ErrorFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec       string
		status     int
		kind, code string
	}{
		{"error-first", 503, "api_error", "no_healthy_route"},
		{"error-first;code=500", 502, "api_error", "upstream_failed"},
		{"error-first;code=429", 429, "rate_limit_error", "capacity_full"},
		{"error-first;code=400;message=max_tokens must be at least 1", 400, "invalid_request_error", "rejected_by_engine"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{upstream: quietProbes})
			p.engines[0].SetFault(sim.Fault{Spec: c.spec})
			p.post(chatPath, p.chat(`"stream":true`)).wantError(c.status, c.kind, c.code)
		})
	}
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{engines: two(), upstream: quietProbes, model: "policy: round_robin"})
		p.engines[0].SetFault(sim.Fault{Spec: "error-first"})
		wantElsewhere(t, p, p.chat(`"stream":true`), 4)
	})
}

func TestFault20_Endless(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"endless-header", "huge-header", "huge-header;lines=1"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				p.post(chatPath, body).wantError(502, "api_error", "upstream_bad_response")
			})
		})
	}
	t.Run("endless-json", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{upstream: quietProbes})
		p.engines[0].SetFault(sim.Fault{Spec: "endless-json"})
		p.post(chatPath, p.chat("")).wantError(502, "api_error", "upstream_bad_response")
	})
	t.Run("endless-line", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{upstream: quietProbes})
		p.engines[0].SetFault(sim.Fault{Spec: "endless-line"})
		wantBroken(t, p.post(chatPath, p.chat(`"stream":true`)), "upstream_bad_response")
		p.engines[0].SetFault(sim.Fault{Spec: "endless-line=0"})
		p.post(chatPath, p.chat(`"stream":true`)).wantError(502, "api_error", "upstream_bad_response")
	})
}

func TestFault21_NotAnAnswer(t *testing.T) {
	t.Parallel()
	for _, fault := range strings.Fields("no-choices no-choices;empty=1 empty-body html-200 no-content") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				p.post(chatPath, body).wantError(502, "api_error", "upstream_bad_response")
			})
		})
	}
	for fault, more := range map[string]string{
		"invalid-json": "", "invalid-json=0": `"stream":true`, "sse-for-json": "",
		"json-for-sse": `"stream":true`, "json-for-sse;label=1": `"stream":true`,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			p := start(t, setup{upstream: quietProbes})
			p.engines[0].SetFault(sim.Fault{Spec: fault})
			p.post(chatPath, p.chat(more)).wantError(502, "api_error", "upstream_bad_response")
		})
	}
}

func TestFault22_EngineFailsWithItsOwnWords(t *testing.T) {
	t.Parallel()
	for _, fault := range strings.Fields("status=500;html=1 status=500 status=501 status=502;html=1 status=502 status=507 status=599;empty=1") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				p.post(chatPath, body).wantError(502, "api_error", "upstream_failed")
			})
		})
	}
}

func TestFault23_CompressionNobodyAskedFor(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"gzip", "gzip;bomb=256"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			e := sim.Options{Record: true}
			both(t, setup{engines: []sim.Options{e}, upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				r := p.post(chatPath, body, "Accept-Encoding: gzip, br")
				r.wantError(502, "api_error", "upstream_bad_response")
				if got := p.engines[0].Stats().LastRequest.Get("Accept-Encoding"); got != "identity" {
					t.Errorf("Accept-Encoding %q went upstream", got)
				}
			})
		})
	}
}

func TestFault24_InterimAnswers(t *testing.T) {
	t.Parallel()
	for _, fault := range strings.Fields("interim=1;code=100 interim=1;code=102 interim=3;code=103 interim=8;code=103") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				c := p.dial()
				_ = c.send(p.request(body))
				line, err := c.in.Peek(len("HTTP/1.1 200"))
				if err != nil || string(line) != "HTTP/1.1 200" {
					t.Errorf("the client got %q first, %v", line, err)
				}
				c.reply("POST").wantStatus(200)
			})
		})
	}
	t.Run("endless", func(t *testing.T) {
		t.Parallel()
		both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
			wantBadResponse(t, p, "interim=50", body)
		})
	})
}

func TestFault25_Redirect(t *testing.T) {
	t.Parallel()
	for _, code := range []int{301, 302, 303, 304, 307, 308} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fmt.Sprintf("redirect=%d", code)})
				r := p.post(chatPath, body)
				r.wantError(502, "api_error", "upstream_bad_response")
				if r.header.Get("Location") != "" {
					t.Error("the redirect reached the client")
				}
				if p.engines[0].Stats().Followed != 0 {
					t.Error("the redirect was followed: the prompt went elsewhere")
				}
			})
		})
	}
}

func TestFault26_EngineRejectsTheRequest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec       string
		status     int
		kind, code string
		text       string
	}{
		{"status=400", 400, "invalid_request_error", "rejected_by_engine", "temperature"},
		{"status=413", 413, "request_too_large", "request_too_large", "1048576"},
		{"status=422", 400, "invalid_request_error", "rejected_by_engine", "max_tokens"},
		{"status=400;message=This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", 400, "invalid_request_error", "context_length_exceeded", "4096"},
		{"status=400;message=bad\x00\x1b[31m\r\nvalue", 400, "invalid_request_error", "rejected_by_engine", "value"},
		{"status=400;message=" + strings.Repeat("long ", 10000), 400, "invalid_request_error", "rejected_by_engine", "long"},
		{"status=400;empty=1", 400, "invalid_request_error", "rejected_by_engine", ""},
		{"status=400;html=1", 400, "invalid_request_error", "rejected_by_engine", ""},
	} {
		t.Run(fmt.Sprintf("%.40q", c.spec), func(t *testing.T) {
			t.Parallel()
			both(t, setup{engines: two(), upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				for _, e := range p.engines {
					e.SetFault(sim.Fault{Spec: c.spec})
				}
				for range 30 { // enough to open a breaker twice
					e := p.post(chatPath, body).wantError(c.status, c.kind, c.code)
					if !strings.Contains(e.Message, c.text) {
						t.Errorf("message %q does not help", e.Message)
					}
					if strings.ContainsAny(e.Message, "\x00\x1b\r\n") || len(e.Message) > 4096 {
						t.Errorf("message is not cleaned: %d bytes, %.60q", len(e.Message), e.Message)
					}
				}
				if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n != 30 {
					t.Errorf("%d requests upstream, want 30: a rejected one must not be repeated", n)
				}
				for _, e := range p.engines {
					e.SetFault()
				}
				p.post(chatPath, body).wantStatus(200)
			})
		})
	}
}

func TestFault27_OurCredentialIsRefused(t *testing.T) {
	t.Parallel()
	for _, code := range []int{401, 403} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fmt.Sprintf("status=%d", code)})
				r := p.post(chatPath, body)
				r.wantError(502, "api_error", "upstream_auth")
				if r.header.Get("WWW-Authenticate") != "" {
					t.Error("the client is asked for a credential")
				}
				if l := p.lastCall(); l.Code != "upstream_auth" {
					t.Errorf("the log says %q", l.Code)
				}
			})
		})
	}
	t.Run("wrong key", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{engines: []sim.Options{{APIKey: "right"}}, upstream: `api_key: "wrong"`, cold: true})
		p.post(chatPath, p.chat("")).wantError(502, "api_error", "upstream_auth")
	})
	t.Run("right key", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{engines: []sim.Options{{APIKey: "right"}}, upstream: `api_key: "right"`})
		p.post(chatPath, p.chat("")).wantStatus(200)
	})
}

func TestFault28_ModelGone(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		both(t, setup{upstream: "probe: { interval: 200ms }"}, func(t *testing.T, p *penstock, body string) {
			e := p.engines[0]
			e.SetModels("another")
			p.post(chatPath, body).wantError(503, "api_error", "no_healthy_route")
			asked := e.Stats().Requests
			p.post(chatPath, body).wantError(503, "api_error", "no_healthy_route")
			if n := e.Stats().Requests; n != asked {
				t.Error("a model that is gone was asked for again")
			}
			e.SetModels("sim")
			waitFor(t, patience, "the model is served again", func() bool { return p.post(chatPath, body).status == 200 })
		})
	})
	t.Run("still listed", func(t *testing.T) {
		t.Parallel()
		both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
			p.engines[0].SetFault(sim.Fault{Spec: "status=404", Count: 1, Path: "/v1/chat"})
			r := p.post(chatPath, body)
			r.wantError(503, "api_error", "no_healthy_route")
			if after := r.header.Get("Retry-After"); after != "1" {
				t.Errorf("Retry-After %q for an engine that is looked at at once", after)
			}
			took := waitFor(t, patience, "the model is served again", func() bool {
				time.Sleep(10 * time.Millisecond)
				return p.post(chatPath, body).status == 200
			})
			if took > 2*time.Second {
				t.Errorf("back after %v", took)
			}
			s, _ := p.state()
			if f := s.Upstreams[0].LastFailure; f == nil || f.During != "call" || f.Reason != "model_gone" || f.Status != 404 {
				t.Errorf("last failure %+v", f)
			}
			for _, line := range []string{"upstream does not serve a model now", "upstream serves the model again"} {
				if n := strings.Count(p.log.String(), line); n != 1 {
					t.Errorf("%d lines say %q", n, line)
				}
			}
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		both(t, setup{engines: two(), upstream: quietProbes, model: "policy: round_robin"}, func(t *testing.T, p *penstock, body string) {
			p.engines[0].SetModels("another")
			wantElsewhere(t, p, body, 6)
			if n := p.engines[0].Stats().Requests; n > 1 {
				t.Errorf("the engine without the model was asked %d times", n)
			}
		})
	})
}

func TestFault29_EngineIsBusy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec       string
		status     int
		kind, code string
		sends      int64
		after      string
	}{
		{"status=429", 429, "rate_limit_error", "capacity_full", 2, "1"},
		{"status=429;retry-after=7", 429, "rate_limit_error", "capacity_full", 2, "7"},
		{"status=429;retry-after=86400", 429, "rate_limit_error", "capacity_full", 2, "60"},
		{"status=429;retry-after=-5", 429, "rate_limit_error", "capacity_full", 2, "1"},
		{"status=429;retry-after=soon", 429, "rate_limit_error", "capacity_full", 2, "1"},
		{"status=503;retry-after=9", 503, "api_error", "no_healthy_route", 2, "9"},
		{"status=503;retry-after=DATE", 503, "api_error", "no_healthy_route", 2, "20"},
		{"status=429;retry-after=PAST", 429, "rate_limit_error", "capacity_full", 2, "1"},
		{"status=503", 503, "api_error", "no_healthy_route", 2, ""},
		{"status=529;retry-after=3", 503, "api_error", "no_healthy_route", 2, "3"},
		{"status=502", 502, "api_error", "upstream_failed", 2, ""},
		{"status=500", 502, "api_error", "upstream_failed", 1, ""},
		{"status=504", 504, "timeout_error", "generation_timeout", 1, ""},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			both(t, setup{engines: two(), upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				spec := strings.Replace(c.spec, "DATE", time.Now().Add(20*time.Second).UTC().Format(http.TimeFormat), 1)
				spec = strings.Replace(spec, "PAST", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 1)
				for _, e := range p.engines {
					e.SetFault(sim.Fault{Spec: spec})
				}
				r := p.post(chatPath, body)
				r.wantError(c.status, c.kind, c.code)
				after := r.header.Get("Retry-After")
				if c.after == "20" && (after == "19" || after == "18") { // the date has whole seconds
					after = "20"
				}
				if c.after != "" && after != c.after {
					t.Errorf("Retry-After %q, want %q", after, c.after)
				}
				if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n != c.sends {
					t.Errorf("%d requests upstream, want %d", n, c.sends)
				}
			})
		})
	}
	for _, spec := range strings.Fields("status=429 status=503 status=529 status=502") {
		t.Run(spec+"/other", func(t *testing.T) {
			t.Parallel()
			both(t, setup{engines: two(), upstream: quietProbes, model: "policy: round_robin"}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: spec})
				wantElsewhere(t, p, body, 4)
			})
		})
	}
	t.Run("no retry storm", func(t *testing.T) {
		t.Parallel()
		p := start(t, setup{engines: two(), upstream: quietProbes})
		for _, e := range p.engines {
			e.SetFault(sim.Fault{Spec: "status=429"})
		}
		const calls = 200
		for range calls {
			p.post(chatPath, p.chat("")).wantStatus(429)
		}
		// The budget is a fifth of the calls of the last ten seconds, and three are always allowed.
		if n := p.engines[0].Stats().Requests + p.engines[1].Stats().Requests; n > calls+calls/5+3 {
			t.Errorf("%d requests upstream for %d calls", n, calls)
		}
	})
}

func TestFault30_EarlyRefusalWhileSending(t *testing.T) {
	t.Parallel()
	both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
		p.engines[0].SetFault(sim.Fault{Spec: "early-413;linger=1"})
		body = strings.Replace(body, canary, canary+strings.Repeat("x", 8<<20), 1)
		p.post(chatPath, body).wantError(413, "request_too_large", "request_too_large")
	})
}

func TestFault31_PooledConnectionIsStale(t *testing.T) {
	t.Parallel()
	for _, fault := range strings.Fields("keepalive-close;when=now keepalive-close;when=next keepalive-close;when=next-reset keepalive-close;when=now;after=20ms") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			both(t, setup{upstream: quietProbes}, func(t *testing.T, p *penstock, body string) {
				p.engines[0].SetFault(sim.Fault{Spec: fault})
				for range 20 {
					p.post(chatPath, body).wantStatus(200)
				}
				for _, l := range p.calls() {
					if l.Attempts > 2 {
						t.Errorf("%d attempts", l.Attempts)
					}
				}
			})
		})
	}
}

func TestFault32_EngineRestarts(t *testing.T) {
	t.Parallel()
	p := start(t, setup{engines: two(), upstream: "probe: { interval: 200ms, rise: 1 }"})
	for range 8 {
		p.post(chatPath, p.chat("")).wantStatus(200)
	}
	// Half of the connections go, the engine stays: nobody notices.
	for range 5 {
		p.engines[0].Drop(.5, true)
		for range 4 {
			p.post(chatPath, p.chat("")).wantStatus(200)
		}
	}
	// It goes away and comes back: requests go on elsewhere.
	p.engines[0].Unlisten()
	p.engines[0].Drop(1, true)
	for range 20 {
		p.post(chatPath, p.chat("")).wantStatus(200)
	}
	waitFor(t, patience, "the dead engine is down", func() bool { return p.metric("penstock_upstream_up", `up-0`) == 0 })
	asked := p.metric("penstock_upstream_attempts_total", "up-0")
	for range 20 {
		p.post(chatPath, p.chat("")).wantStatus(200)
	}
	if n := p.metric("penstock_upstream_attempts_total", "up-0"); n != asked {
		t.Errorf("%v calls were tried on an engine that is down", n-asked)
	}
	if err := p.engines[0].Relisten(); err != nil {
		t.Fatal(err)
	}
	p.engines[1].Unlisten()
	p.engines[1].Drop(1, true)
	waitFor(t, patience, "the engine is used again", func() bool { return p.post(chatPath, p.chat("")).status == 200 })
}

// TestFault32_BreakerTriesOne: while an engine fails its work, half-open trials go to it one at a time.
func TestFault32_BreakerTriesOne(t *testing.T) {
	t.Parallel()
	p := start(t, setup{upstream: quietProbes})
	e := p.engines[0]
	e.SetFault(sim.Fault{Spec: "status=500"})
	waitFor(t, patience, "the breaker is open", func() bool { return p.post(chatPath, p.chat("")).status == 503 })
	e.SetFault(sim.Fault{Spec: "status=500;delay=300ms"})
	e.Reset()
	e.SetFault(sim.Fault{Spec: "status=500;delay=300ms"})
	time.Sleep(1100 * time.Millisecond) // the breaker's cool-down is the subject
	statuses := make(chan int, 20)
	for range cap(statuses) {
		go func() { statuses <- p.post(chatPath, p.chat("")).status }()
	}
	count := map[int]int{}
	for range cap(statuses) {
		count[<-statuses]++
	}
	if n := e.Stats().Requests; n != 1 || count[503] != cap(statuses)-1 {
		t.Errorf("%d trials at once, statuses %v", n, count)
	}
}
