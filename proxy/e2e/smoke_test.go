package e2e

import "testing"

// TestSmoke is the shortest way through everything; when it fails, look at it first.
func TestSmoke(t *testing.T) {
	t.Parallel()
	p := start(t, setup{})
	p.post("/v1/chat/completions", p.chat("")).wantStatus(200)
	text, done := chatText(t, p.post("/v1/chat/completions", p.chat(`"stream":true`)).wantStatus(200).events())
	if text == "" || !done {
		t.Errorf("streamed %q, done %v", text, done)
	}
	p.get("/v1/models").wantStatus(200)
	p.post("/v1/chat/completions", "{").wantError(400, "invalid_request_error", "invalid_json")
	if n := len(p.calls()); n != 3 {
		t.Errorf("%d access lines, want 3", n)
	}
}
