package status

import (
	"testing"

	"penstock/upstreams"
)

// TestCausesInWords: each cause has words, and nothing else has.
func TestCausesInWords(t *testing.T) {
	if len(inWords) != len(upstreams.Causes()) {
		t.Errorf("%d have words, of %d causes", len(inWords), len(upstreams.Causes()))
	}
	for _, c := range upstreams.Causes() {
		if inWords[c.Cause] == "" {
			t.Errorf("%s has no words", c.Cause)
		}
	}
	for cause, want := range map[string]string{
		"connect": "no connection", "tls: x509: expired": "TLS handshake failed: x509: expired",
		"no_healthy_route": "no healthy route", "upstream_timeout": "timeout",
	} {
		if got := words(cause); got != want {
			t.Errorf("%s is %s, want %s", cause, got, want)
		}
	}
}
