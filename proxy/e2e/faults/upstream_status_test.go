package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
)

// Rows 22 and 26 to 30: an engine that answers with another status than 200.

func TestFault22_EngineFailsWithItsOwnWords(t *testing.T) {
	t.Parallel()
	for i, fault := range strings.Fields("status=500;html=1 status=500 status=501 status=502;html=1 status=502 status=507 status=599;empty=1") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault(fault)
				e.ask(w, "").wantRefused(w, engineFailed)
				e.wantSent(1)
				e.wantTold(w, engineFailed, "upstream_fail", 1)
			})
		})
	}
}

func TestFault26_EngineRejectsTheRequest(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		spec string
		want refusal
		text string
	}{
		{"status=400", rejected, "temperature"},
		{"status=413", bodyTooLarge, "1048576"},
		{"status=422", rejected, "max_tokens"},
		{"status=400;message=This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", contextTooBig, "4096"},
		{"status=400;message=bad\x00\x1b[31m\r\nvalue", rejected, "value"},
		{"status=400;message=" + strings.Repeat("long ", 10000), rejected, "long"},
		{"status=400;empty=1", rejected, ""},
		{"status=400;html=1", rejected, ""},
	} {
		t.Run(fmt.Sprintf("%.40q", c.spec), func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: two(), upstream: quiet}, func(e *edge, w way) {
				e.fault(c.spec)
				const n = 30 // enough to open a breaker twice
				for range n {
					got := e.ask(w, "").wantRefused(w, c.want)
					if !strings.Contains(got.Message, c.text) {
						e.t.Errorf("message %q does not help", got.Message)
					}
					if strings.ContainsAny(got.Message, "\x00\x1b\r\n") || len(got.Message) > 4096 {
						e.t.Errorf("message is not cleaned: %d bytes, %.60q", len(got.Message), got.Message)
					}
					if w.dialect == "messages" && c.want == contextTooBig && !strings.HasPrefix(got.Message, "prompt is too long") {
						e.t.Errorf("message %q does not make an agent compact", got.Message)
					}
				}
				e.wantSent(n) // a rejected request is not repeated
				e.wantTold(w, c.want, "client_error", 1)
				e.wantResult("rejected", n)
				for _, u := range e.status().Upstreams {
					if u.Breaker != "closed" || u.State != "up" {
						e.t.Errorf("%s is %s, its breaker %s", u.Name, u.State, u.Breaker)
					}
				}
			})
		})
	}
}

func TestFault27_OurCredentialIsRefused(t *testing.T) {
	t.Parallel()
	for i, code := range []int{401, 403} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{upstream: quiet}, func(e *edge, w way) {
				e.fault("status=" + strconv.Itoa(code))
				r := e.ask(w, "")
				r.wantRefused(w, engineAuth)
				if r.header.Get("WWW-Authenticate") != "" {
					e.t.Error("the client is asked for a credential")
				}
				e.wantSent(1)
				e.wantTold(w, engineAuth, "upstream_fail", 1)
			})
		})
	}
	t.Run("wrong key", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: []sim.Options{{APIKey: "right"}}, upstream: `api_key: "wrong"`, cold: true}, func(e *edge, w way) {
			e.ask(w, "").wantRefused(w, engineAuth)
		})
	})
	t.Run("right key", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: []sim.Options{{APIKey: "right"}}, upstream: `api_key: "right"`}, func(e *edge, w way) {
			e.ask(w, "").text(w)
		})
	})
}

func TestFault28_ModelGone(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{upstream: "probe: { interval: 200ms }"}, func(e *edge, w way) {
			engine := e.engines[0]
			engine.SetModels("another")
			e.ask(w, "").wantRefused(w, noRoute)
			e.wantResult("model_gone", 1)
			asked := engine.Stats().Requests
			e.ask(w, "").wantRefused(w, noRoute)
			if n := engine.Stats().Requests; n != asked {
				e.t.Error("a model that is gone was asked for again")
			}
			waitFor(e.t, patience, "the catalog has the model as not ready", func() bool {
				m := e.catalog()[0]
				return !m.IsReady && m.Capacity.Available == 0 && m.Capacity.Total == 0
			})
			engine.SetModels("sim")
			waitFor(e.t, patience, "the model is served again", func() bool { return e.ask(w, "").status == 200 })
			waitFor(e.t, patience, "the catalog has it as ready", func() bool { return e.catalog()[0].IsReady })
		})
	})
	t.Run("still listed", func(t *testing.T) { // one 404, of an engine that has the model: it is looked at at once, and serves on
		t.Parallel()
		inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
			e.engines[0].SetFault(sim.Fault{Spec: "status=404", Count: 1})
			gone := noRoute
			gone.after = "1"
			e.ask(w, "").wantRefused(w, gone)
			waitFor(e.t, patience, "the model is served again", func() bool { return e.ask(w, "").status == 200 })
			if f := e.status().Upstreams[0].LastFailure; f == nil || f.Reason != "model_gone" || f.Status != 404 {
				e.t.Errorf("last failure %+v", f)
			}
			for _, line := range []string{"upstream does not serve a model now", "upstream serves the model again"} {
				if n := strings.Count(e.log.String(), line); n != 1 {
					e.t.Errorf("%d lines say %q", n, line)
				}
			}
		})
	})
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: two(), upstream: quiet, model: turns}, func(e *edge, w way) {
			e.engines[0].SetModels("another")
			e.wantElsewhere(w, 6)
			if n := e.engines[0].Stats().Requests; n > 1 {
				e.t.Errorf("the engine without the model was asked %d times", n)
			}
		})
	})
}

func TestFault29_EngineIsBusy(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		spec    string
		want    refusal
		outcome string
		sends   int64
		after   string // Retry-After where the dialect's status has one
	}{
		{"status=429", capacityFull, "limited", 2, "1"},
		{"status=429;retry-after=7", capacityFull, "limited", 2, "7"},
		{"status=429;retry-after=86400", capacityFull, "limited", 2, "60"},
		{"status=429;retry-after=-5", capacityFull, "limited", 2, "1"},
		{"status=429;retry-after=soon", capacityFull, "limited", 2, "1"},
		{"status=429;retry-after=PAST", capacityFull, "limited", 2, "1"},
		{"status=503;retry-after=9", noRoute, "no_route", 2, "9"},
		{"status=503;retry-after=3600", noRoute, "no_route", 2, "60"},
		{"status=503;retry-after=DATE", noRoute, "no_route", 2, ""}, // checked apart
		{"status=503", noRoute, "no_route", 2, "1"},
		{"status=529;retry-after=3", noRoute, "no_route", 2, "3"},
		{"status=502", engineFailed, "upstream_fail", 2, ""},
		{"status=500", engineFailed, "upstream_fail", 1, ""},
		{"status=504", tooSlow, "timeout", 1, "5"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: two(), upstream: quiet}, func(e *edge, w way) {
				spec := strings.Replace(c.spec, "DATE", time.Now().Add(40*time.Second).UTC().Format(http.TimeFormat), 1)
				e.fault(strings.Replace(spec, "PAST", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 1))
				want := c.want
				want.after = c.after
				r := e.ask(w, "")
				r.wantRefused(w, want)
				if n, _ := strconv.Atoi(r.header.Get("Retry-After")); strings.Contains(c.spec, "DATE") && (n < 20 || n > 40) {
					e.t.Errorf("Retry-After %d for a date in 40 s", n)
				}
				e.wantSent(c.sends)
				e.wantTold(w, c.want, c.outcome, int(c.sends))
			})
		})
	}
	for i, spec := range strings.Fields("status=429 status=503 status=529 status=502") {
		t.Run(spec+"/other", func(t *testing.T) {
			t.Parallel()
			inWays(t, variants(everyWay, i), setup{engines: two(), upstream: quiet, model: turns}, func(e *edge, w way) {
				e.engines[0].SetFault(sim.Fault{Spec: spec})
				e.wantElsewhere(w, 4)
			})
		})
	}
	t.Run("no retry storm", func(t *testing.T) {
		t.Parallel()
		inWays(t, everyWay, setup{engines: two(), upstream: quiet}, func(e *edge, w way) {
			e.fault("status=429")
			const calls = 100
			for range calls {
				e.ask(w, "").wantRefused(w, capacityFull)
			}
			// The budget is a fifth of the calls of the last ten seconds, and three are always allowed.
			if n := e.sent(); n > calls+calls/5+3 {
				e.t.Errorf("%d requests upstream for %d calls", n, calls)
			}
		})
	})
}

func TestFault30_EarlyRefusalWhileSending(t *testing.T) {
	t.Parallel()
	inWays(t, everyWay, setup{upstream: quiet}, func(e *edge, w way) {
		e.fault("early-413;linger=1")
		r := e.say(w, prompt+strings.Repeat("x", 8<<20), "")
		r.wantRefused(w, bodyTooLarge)
		e.wantTold(w, bodyTooLarge, "client_error", 1)
		e.wantFresh(w)
	})
}
