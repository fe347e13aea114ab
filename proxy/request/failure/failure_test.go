package failure

import (
	"testing"

	"penstock/upstreams/http1"
)

// TestUnreachable checks the error for an unreachable engine. The message must depend on what
// happened to the connection, and the code must always be the same.
func TestUnreachable(t *testing.T) {
	for reason, want := range map[string]string{
		http1.ReasonConnect: "The engine could not be reached.",
		http1.ReasonDNS:     "The engine could not be reached.",
		http1.ReasonEOF:     "The engine closed the connection before its answer.",
		http1.ReasonReset:   "The engine's connection was reset before its answer.",
		http1.ReasonSilent:  "The engine's host fell silent before its answer.",
	} {
		f := FromExchange(&http1.Failure{Kind: http1.KindUnreachable, Reason: reason})
		if f.API.Message != want || f.API.Code != "upstream_unreachable" || f.API.Status != 502 || !f.Retry {
			t.Errorf("%s: got %+v, want a 502 upstream_unreachable that may be retried: %s", reason, f.API, want)
		}
	}
}
