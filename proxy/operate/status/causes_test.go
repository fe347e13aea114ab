package status

import (
	"testing"

	"penstock/upstreams"
)

// TestCausesInWords checks that describeCause replaces a cause or a code with a description, and
// does not change the text after it.
func TestCausesInWords(t *testing.T) {
	for _, c := range upstreams.Causes() {
		if got := describeCause(string(c.Cause)); got != c.ShortMeaning {
			t.Errorf("%s is %s, want %s", c.Cause, got, c.ShortMeaning)
		}
	}
	for cause, want := range map[string]string{
		"connect": "no connection", "tls: x509: expired": "TLS handshake failed: x509: expired",
		"no_healthy_route": "no healthy route", "upstream_timeout": "timeout",
	} {
		if got := describeCause(cause); got != want {
			t.Errorf("%s is %s, want %s", cause, got, want)
		}
	}
}
