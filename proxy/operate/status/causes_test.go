package status

import (
	"testing"

	"penstock/upstreams"
)

// TestCausesInWords checks that words replace a cause, that the text after the cause stays, and
// that a code has its own words.
func TestCausesInWords(t *testing.T) {
	for _, c := range upstreams.Causes() {
		if got := words(string(c.Cause)); got != c.Words {
			t.Errorf("%s is %s, want %s", c.Cause, got, c.Words)
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
