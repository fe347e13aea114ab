package faults

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// These tests cover rows 22 and 26 to 30: an engine that answers with a status other than 200.

func TestFault22_EngineFailsWithItsOwnWords(t *testing.T) {
	t.Parallel()
	for i, fault := range strings.Fields("status=500;html=1 status=500 status=501 status=502;html=1 status=502 status=507 status=599;empty=1") {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(fault)
				e.wantRefusedOnce(w, rig.RefusalEngineFailed, "upstream_fail")
			})
		})
	}
}

func TestFault26_EngineRejectsTheRequest(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		spec string
		want rig.Refusal
		text string
	}{
		{"status=400", rig.RefusalByEngine, "temperature"},
		{"status=413", rig.RefusalBodyTooLarge, "1048576"},
		{"status=422", rig.RefusalByEngine, "max_tokens"},
		{"status=400;message=This model's maximum context length is 4096 tokens. However, you requested 5000 tokens", rig.RefusalContextTooBig, "4096"},
		{"status=400;message=bad\x00\x1b[31m\r\nvalue", rig.RefusalByEngine, "value"},
		{"status=400;message=" + strings.Repeat("long ", 10000), rig.RefusalByEngine, "long"},
		{"status=400;empty=1", rig.RefusalByEngine, ""},
		{"status=400;html=1", rig.RefusalByEngine, ""},
	} {
		t.Run(fmt.Sprintf("%.40q", c.spec), func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault(c.spec)
				const n = 10 // enough to open a breaker twice
				for range n {
					got := e.SendRequest(w, "").WantRefused(w, c.want)
					if !strings.Contains(got.Message, c.text) {
						e.T.Errorf("message %q does not help", got.Message)
					}
					if strings.ContainsAny(got.Message, "\x00\x1b\r\n") || len(got.Message) > 4096 {
						e.T.Errorf("message is not cleaned: %d bytes, %.60q", len(got.Message), got.Message)
					}
					if w.Dialect == "messages" && c.want == rig.RefusalContextTooBig && !strings.HasPrefix(got.Message, "prompt is too long") {
						e.T.Errorf("message %q does not make an agent compact", got.Message)
					}
				}
				e.wantSent(n) // the edge does not repeat a rejected request
				e.wantAccessLine(w, c.want, "client_error", 1)
				e.wantResult("rejected", n)
				for _, u := range e.Status().Upstreams {
					if u.Breaker != "closed" || u.State != "up" {
						e.T.Errorf("%s is %s, its breaker %s", u.Name, u.State, u.Breaker)
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
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.fault("status=" + strconv.Itoa(code))
				r := e.SendRequest(w, "")
				r.WantRefused(w, rig.RefusalEngineAuth)
				if r.Header.Get("WWW-Authenticate") != "" {
					e.T.Error("the client is asked for a credential")
				}
				e.wantSent(1)
				e.wantAccessLine(w, rig.RefusalEngineAuth, "upstream_fail", 1)
			})
		})
	}
	t.Run("wrong key", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: []sim.Options{{APIKey: "right"}}, Upstream: `api_key: "wrong"`, Cold: true}, func(e *edge, w rig.RequestType) {
			e.SendRequest(w, "").WantRefused(w, rig.RefusalEngineAuth)
		})
	})
	t.Run("right key", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: []sim.Options{{APIKey: "right"}}, Upstream: `api_key: "right"`}, func(e *edge, w rig.RequestType) {
			e.SendRequest(w, "").VisibleText(w)
		})
	})
}

func TestFault28_ModelGone(t *testing.T) {
	t.Parallel()
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		// the interval is long enough that no probe notices the fault
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: "probe: { interval: 3s }"}, func(e *edge, w rig.RequestType) {
			engine := e.Engines[0]
			engine.SetModels("another")
			e.SendRequest(w, "").WantRefused(w, rig.RefusalNoRoute)
			e.wantResult("model_gone", 1)
			asked := engine.Stats().Requests
			e.SendRequest(w, "").WantRefused(w, rig.RefusalNoRoute)
			if n := engine.Stats().Requests; n != asked {
				e.T.Error("a model that is gone was asked for again")
			}
			rig.WaitFor(e.T, rig.WaitTimeout, "the catalog has the model as not ready", func() bool {
				m := e.Catalog()[0]
				return !m.IsReady && m.Capacity.Available == 0 && m.Capacity.Total == 0
			})
			engine.SetModels("sim")
			rig.WaitFor(e.T, rig.WaitTimeout, "the model is served again", func() bool { return e.SendRequest(w, "").Status == 200 })
			rig.WaitFor(e.T, rig.WaitTimeout, "the catalog has it as ready", func() bool { return e.Catalog()[0].IsReady })
		})
	})
	t.Run("still listed", func(t *testing.T) { // an engine that lists the model is probed after a single 404
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.Engines[0].SetFault(sim.Fault{Spec: "status=404", Count: 1})
			gone := rig.RefusalNoRoute
			gone.After = "1"
			e.SendRequest(w, "").WantRefused(w, gone)
			rig.WaitFor(e.T, rig.WaitTimeout, "the model is served again", func() bool { return e.SendRequest(w, "").Status == 200 })
			if f := e.Status().Upstreams[0].LastFailure; f == nil || f.Reason != "model_gone" || f.Status != 404 {
				e.T.Errorf("last failure %+v", f)
			}
			for _, line := range []string{"upstream does not serve a model now", "upstream serves the model again"} {
				rig.WaitFor(e.T, rig.WaitTimeout, "the log says: "+line, func() bool { return strings.Contains(e.Log.String(), line) })
				if n := strings.Count(e.Log.String(), line); n != 1 {
					e.T.Errorf("%d lines say %q, want 1", n, line)
				}
			}
		})
	})
	for _, c := range []struct {
		name, message string
		want          rig.Refusal
		outcome       string
	}{
		{"of the request", "image not found", rig.RefusalByEngine, "client_error"},
		{"of the path", "Invalid URL (POST /v1/x)", rig.RefusalEngineFailed, "upstream_fail"},
		{"framework", "Not Found", rig.RefusalEngineFailed, "upstream_fail"},
	} {
		// The error is not about the model, so the model stays available.
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				e.Engines[0].SetFault(sim.Fault{Spec: "status=404;message=" + c.message, Count: 6})
				for range 6 {
					e.SendRequest(w, "").WantRefused(w, c.want)
					e.wantAccessLine(w, c.want, c.outcome, 1)
				}
				e.SendRequest(w, "").WantStatus(200)
				e.wantResult("rejected", 6)
			})
		})
	}
	t.Run("other", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
			e.Engines[0].SetModels("another")
			e.wantRetried(w, 6)
			if n := e.Engines[0].Stats().Requests; n > 1 {
				e.T.Errorf("the engine without the model was asked %d times", n)
			}
		})
	})
}

func TestFault29_EngineIsBusy(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		spec    string
		want    rig.Refusal
		outcome string
		sends   int64
		after   string // Retry-After, if the dialect sends it with this status
	}{
		{"status=429", rig.RefusalCapacityFull, "limited", 2, "1"},
		{"status=429;retry-after=7", rig.RefusalCapacityFull, "limited", 2, "7"},
		{"status=429;retry-after=86400", rig.RefusalCapacityFull, "limited", 2, "60"},
		{"status=429;retry-after=-5", rig.RefusalCapacityFull, "limited", 2, "1"},
		{"status=429;retry-after=soon", rig.RefusalCapacityFull, "limited", 2, "1"},
		{"status=429;retry-after=PAST", rig.RefusalCapacityFull, "limited", 2, "1"},
		{"status=503;retry-after=9", rig.RefusalNoRoute, "no_route", 2, "9"},
		{"status=503;retry-after=3600", rig.RefusalNoRoute, "no_route", 2, "60"},
		// Retry-After is checked separately.
		{"status=503;retry-after=DATE", rig.RefusalNoRoute, "no_route", 2, ""},
		{"status=503", rig.RefusalNoRoute, "no_route", 2, "1"},
		{"status=529;retry-after=3", rig.RefusalNoRoute, "no_route", 2, "3"},
		{"status=502", rig.RefusalEngineFailed, "upstream_fail", 2, ""},
		{"status=500", rig.RefusalEngineFailed, "upstream_fail", 2, ""},
		{"status=501", rig.RefusalEngineFailed, "upstream_fail", 2, ""},
		{"status=507", rig.RefusalEngineFailed, "upstream_fail", 1, ""},
		{"status=504", rig.RefusalTooSlow, "timeout", 1, "5"},
	} {
		t.Run(c.spec, func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
				spec := strings.Replace(c.spec, "DATE", time.Now().Add(40*time.Second).UTC().Format(http.TimeFormat), 1)
				e.fault(strings.Replace(spec, "PAST", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat), 1))
				want := c.want
				want.After = c.after
				r := e.SendRequest(w, "")
				r.WantRefused(w, want)
				if n, _ := strconv.Atoi(r.Header.Get("Retry-After")); strings.Contains(c.spec, "DATE") && (n < 20 || n > 40) {
					e.T.Errorf("Retry-After %d for a date in 40 s", n)
				}
				e.wantSent(c.sends)
				e.wantAccessLine(w, c.want, c.outcome, int(c.sends))
			})
		})
	}
	for i, spec := range strings.Fields("status=429 status=503 status=529 status=502 status=500 status=501") {
		t.Run(spec+"/other", func(t *testing.T) {
			t.Parallel()
			forEachRequestType(t, rig.RequestTypesForVariant(rig.RequestTypesWithAudio, i), rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: roundRobinPolicy}, func(e *edge, w rig.RequestType) {
				e.Engines[0].SetFault(sim.Fault{Spec: spec})
				e.wantRetried(w, 4)
			})
		})
	}
	t.Run("no retry storm", func(t *testing.T) {
		t.Parallel()
		forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
			e.fault("status=429")
			const calls = 100
			for range calls {
				e.SendRequest(w, "").WantRefused(w, rig.RefusalCapacityFull)
			}
			// The budget is a fifth of the calls in the last ten seconds, but at least three.
			if n := e.sent(); n > calls+calls/5+3 {
				e.T.Errorf("%d requests upstream for %d calls", n, calls)
			}
		})
	})
}

func TestFault30_EarlyRefusalWhileSending(t *testing.T) {
	t.Parallel()
	forEachRequestType(t, rig.RequestTypesWithAudio, rig.Setup{Upstream: rig.QuietProbes}, func(e *edge, w rig.RequestType) {
		e.fault("early-413;linger=1")
		r := e.SendPrompt(w, rig.Prompt+strings.Repeat("x", 8<<20), "")
		r.WantRefused(w, rig.RefusalBodyTooLarge)
		e.wantAccessLine(w, rig.RefusalBodyTooLarge, "client_error", 1)
		e.wantNewConnection(w)
	})
}
