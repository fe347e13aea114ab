package responses

import (
	"testing"

	"penstock/translate/apierr"
)

// TestStreamCode checks that errors in events have the codes that clients know. Codex compacts a
// conversation only after context_length_exceeded.
func TestStreamCode(t *testing.T) {
	for _, c := range []struct{ kind, code, want string }{
		{apierr.TypeInvalidRequest, apierr.CodeContextLength, "context_length_exceeded"},
		{apierr.TypeInvalidRequest, apierr.CodeRejectedByEngine, "invalid_prompt"},
		{apierr.TypeTooLarge, apierr.CodeRequestTooLarge, "invalid_prompt"},
		{apierr.TypeRateLimit, apierr.CodeCapacityFull, "rate_limit_exceeded"},
		{apierr.TypeRateLimit, apierr.CodeRateLimited, "rate_limit_exceeded"},
		{apierr.TypeAPI, apierr.CodeUpstreamFailed, "server_error"},
		{apierr.TypeTimeout, apierr.CodeGenerationTimeout, "server_error"},
		{apierr.TypeAPI, apierr.CodeInternal, "server_error"},
	} {
		if got := streamCode(&apierr.Error{Type: c.kind, Code: c.code}); got != c.want {
			t.Errorf("%s, %s: %s, want %s", c.kind, c.code, got, c.want)
		}
	}
}
