package e2e

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestFailureWords checks the finish reasons with which an engine aborts an answer. If the client
// has not received any bytes, the call must go to another engine. Otherwise, the call must end as
// broken. All other unknown finish reasons count as a normal end.
func TestFailureWords(t *testing.T) {
	t.Parallel()
	const gaveUp = "finish=insufficient_system_resource"
	for _, w := range rig.TextRequestTypes {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, rig.Setup{Engines: rig.TwoEngines(), Upstream: rig.QuietProbes, Model: "policy: round_robin", Retry: "budget: 100%"})
			p.Engines[0].SetFault(sim.Fault{Spec: gaveUp})
			p.Engines[1].SetFault(sim.Fault{Spec: "finish=eos_token"})
			broken := 0
			for range 2 { // round robin: one of the two calls reaches the failing engine
				r := p.LocalEdge.Edge.SendRequest(w, `"tokens":5`)
				if w.Stream && (strings.Contains(r.Body, "upstream_failed") || strings.Contains(r.Body, "server_error")) {
					r.WantBrokenStream(w, "upstream_failed")
					broken++
					continue
				}
				if r.WantStatus(200); r.VisibleText(w) == "" || strings.Contains(r.Body, "eos_token") {
					t.Errorf("answer = %s, want a text and no eos_token", r.Body)
				}
			}
			if n := p.Metric("penstock_retries_total"); broken != 1 && w.Stream || n != 1 && !w.Stream {
				t.Errorf("%d broken streams, %v retries", broken, n)
			}
		})
	}
}

// TestFailureWords_BeforeDelta checks that, if the engine aborts a stream before the first delta,
// the call goes to another engine.
func TestFailureWords_BeforeDelta(t *testing.T) {
	t.Parallel()
	engine := startSlow(t, "", slowRole+strings.Replace(slowEnd, "%s", "insufficient_system_resource", 1))
	close(engine.proceed)
	for _, w := range rig.StreamRequestTypes {
		p := start(t, rig.Setup{Engines: []sim.Options{{}}, Fakes: []string{engine.URL}, Upstream: rig.QuietProbes, Model: "policy: round_robin"})
		for range 2 {
			if r := p.LocalEdge.Edge.SendRequest(w, `"text":"There."`).WantStatus(200); !strings.Contains(r.Body, "There") {
				t.Errorf("%v: answer = %s, want There", w, r.Body)
			}
		}
		if n := p.Metric("penstock_retries_total"); n != 1 {
			t.Errorf("%v: %v retries, want 1", w, n)
		}
	}
}
