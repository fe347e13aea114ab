package e2e

import (
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// Most tests in this folder run an edge in the test process, with the rig (proxy/e2e/rig). A test
// that only needs a successful chat has four lines:
//
//	p := start(t, rig.Setup{})               // one engine, one model "sim", one key
//	r := p.Post(chatPath, p.ChatRequest("")) // the key is sent automatically
//	r.WantStatus(200)
//	p.Engines[0].Stats()                     // the requests that the engine has received

type penstock struct{ *rig.LocalEdge }

func start(t testing.TB, s rig.Setup) *penstock {
	t.Helper()
	return &penstock{rig.Start(t, s)}
}

const chatPath = "/v1/chat/completions"

// recordingEngine returns the options for one engine that records its requests.
func recordingEngine() []sim.Options { return []sim.Options{{Record: true}} }

// streamModes contains an unstreamed and a streamed request. Nearly all rules apply to both.
var streamModes = []struct{ name, more string }{{"json", ""}, {"stream", `"stream":true`}}

// both runs f for an unstreamed and a streamed request, each with a separate edge and separate
// engines.
func both(t *testing.T, s rig.Setup, f func(t *testing.T, p *penstock, body string)) {
	t.Helper()
	for _, w := range streamModes {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, s)
			f(t, p, p.ChatRequest(w.more))
		})
	}
}
