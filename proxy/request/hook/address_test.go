package hook

import (
	"testing"

	"github.com/VictoriaMetrics/metrics"
)

// TestClientFor checks to which URL a hook's question is sent. For a Unix socket, it also checks
// which socket that URL names.
func TestClientFor(t *testing.T) {
	c := NewClient(metrics.NewSet(), nil)
	for before, want := range map[string]string{
		"http://127.0.0.1:8090/decide/": "http://127.0.0.1:8090/decide/",
		"unix:/h":                       "http://2f68/",
		"unix:/h:/":                     "http://2f68/",
		"unix:/h:/decide":               "http://2f68/decide",
		"unix:/h:/decide/":              "http://2f68/decide/",
	} {
		if _, got := c.clientFor(before); got != want {
			t.Errorf("%s: %s, want %s", before, got, want)
		}
	}
}
