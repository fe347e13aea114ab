package faults

import (
	"strings"
	"testing"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestEngineTexts checks that an engine's message about a request reaches the client in every
// dialect, with the model's public name and without secrets.
func TestEngineTexts(t *testing.T) {
	t.Parallel()
	const served, said = "org/private-7b", "The model `org/private-7b` (org/private-7b-base) knows no key sk-proj-Ab3dEf6hIj9l."
	config := func(kind string) string {
		return `
keys: [{ id: a, hash: "{{hash}}" }]
upstreams: [{ name: up-0, url: "{{up-0}}", ` + rig.QuietProbes + ` }]
models: [{ id: sim, deployments: [{ upstream: up-0, served: ` + served + ` }]` + kind + ` }]
`
	}
	for _, w := range rig.RequestTypesWithAudio {
		t.Run(w.String(), func(t *testing.T) {
			t.Parallel()
			kind := ""
			if k := w.ModelKind(); k != "" {
				kind = ", " + k
			}
			e := start(t, rig.Setup{Engines: []sim.Options{{Models: []string{served}}}, Config: config(kind)})
			faults := []string{"status=400;message=" + said}
			if w.Stream {
				faults = append(faults, "error-first;code=400;message="+said, "error-in-stream=2;code=400;message="+said)
			}
			for _, fault := range faults {
				e.fault(fault)
				r := e.SendRequest(w, "")
				if !strings.Contains(r.Body, "The model `sim` (org/private-7b-base) knows no key [key].") {
					t.Errorf("%s: answer = %d %s, want the engine's text with the key removed", fault, r.Status, r.Body)
				}
				if strings.Contains(r.Body, "sk-proj") {
					t.Errorf("%s: the key has reached the client: %s", fault, r.Body)
				}
			}
		})
	}
}
