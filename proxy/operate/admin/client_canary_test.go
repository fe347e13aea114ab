package admin

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"penstock/proxy/operate/canary"
)

// TestCanaryOfUnknownModel checks that the error for an unknown model does not claim that an arm is
// missing.
func TestCanaryOfUnknownModel(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(map[string]string{
			"/-/arms": `[{"model":"llama","arms":[{"arm":"-"},{"arm":"new"}]}]`,
			"/status": `{"models":[{"id":"llama"},{"id":"qwen"}]}`,
		}[r.URL.Path]))
	}))
	defer server.Close()
	for model, want := range map[string]string{
		"lama": "there is no model lama at " + server.URL + ` (aliases do not count): did you mean "llama"?`,
		"else": "there is no model else at " + server.URL + " (aliases do not count)",
		"qwen": "the model qwen has no arm at " + server.URL + ": those with some are llama",
	} {
		err := CompareCanary(context.Background(), CanaryOptions{Edge: Edge{Admin: server.URL}, Model: model}, new(bytes.Buffer))
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", model, err, want)
		}
	}
}

// TestCanaryUnits checks that each number in a comparison has a unit, and that a short time is in
// milliseconds.
func TestCanaryUnits(t *testing.T) {
	at := func(v float64) *float64 { return &v }
	for unit, want := range map[string]string{"s": "412 ms", "tokens/s": "0.412 tokens/s"} {
		var out bytes.Buffer
		printComparisonRow(&out, &canary.Row{Measure: "m", Unit: unit, Rest: at(0.4118), Arm: at(12345.6), Change: at(0), Low: at(0), High: at(0)})
		if text := out.String(); !strings.HasPrefix(text, "m\t"+want+"\t12346 "+unit+"\t") {
			t.Errorf("%q, want %s", text, want)
		}
	}
}
