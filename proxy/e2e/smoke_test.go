package e2e

import (
	"testing"

	"penstock/proxy/e2e/rig"
)

// TestSmoke checks the shortest path through all layers. If it fails, investigate it first.
func TestSmoke(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	p.Post("/v1/chat/completions", p.ChatRequest("")).WantStatus(200)
	text, done := rig.StreamText(t, rig.ChatStream, p.Post("/v1/chat/completions", p.ChatRequest(`"stream":true`)).WantStatus(200).Events())
	if text == "" || !done {
		t.Errorf("streamed %q, done %v", text, done)
	}
	p.Get("/v1/models").WantStatus(200)
	p.Post("/v1/chat/completions", "{").WantError(400, "invalid_request_error", "invalid_json")
	if n := len(p.AccessLinesWhenIdle()); n != 3 {
		t.Errorf("%d access lines, want 3", n)
	}
}
