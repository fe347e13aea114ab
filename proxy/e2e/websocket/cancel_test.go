package websocket

import (
	"fmt"
	"testing"

	"github.com/coder/websocket"

	"penstock/proxy/e2e/rig"
)

// TestCancelInATurn checks that a cancel message is rejected, because the protocol has no such
// message, and that the turn continues to its end. Nothing but closing the connection may stop the
// engine.
func TestCancelInATurn(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	running := func(n int) {
		t.Helper()
		rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("%d calls run", n), func() bool { return p.Engines[0].Stats().Running == n })
	}
	c := dial(t, p)
	c.requestResponse(`"ttft_ms":500,"text":"to the end"`, "")
	running(1)
	c.send(`{"type":"response.cancel"}`)
	text := ""
	for refused, completed := false, false; !refused || !completed; {
		e := c.readEvent()
		text += e.Delta
		switch {
		case e.Type == "error" && e.Error.Code == "cancel_not_supported" && e.Status == 400:
			refused = true
		case e.Type == "response.completed":
			completed = true
		case e.Type == "error", e.Type == "response.failed", e.Type == "response.incomplete":
			t.Fatalf("%s", e.text)
		}
	}
	if text != "to the end" {
		t.Errorf("%q was said", text)
	}
	c.requestResponse(`"ttft_ms":600000`, "")
	running(1)
	c.send(`{"type":"response.cancel"}`)
	c.refused(400, "cancel_not_supported")
	running(1)
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	running(0)
}
