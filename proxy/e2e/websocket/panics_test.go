//go:build testing

package websocket

import (
	"testing"

	"github.com/coder/websocket"

	"penstock/proxy/e2e/rig"
	"penstock/proxy/telemetry/guard"
)

// TestPanics checks panics at any point in a connection. The client must receive 1011 or an event
// for the failed call, and all resources must be released. Other connections must continue.
func TestPanics(t *testing.T) {
	t.Parallel()
	for point, place := range map[string]string{
		"websocket.serve": guard.PlaceWebSocket, "websocket.turn": guard.PlaceWebSocket, "call.run": guard.PlaceHandler, "relay.run": guard.PlaceStream,
		"attempt.end": guard.PlaceStream, "relay.close": guard.PlaceStream,
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			g := guard.New()
			p := start(t, rig.Setup{Guard: g, Untidy: true, Upstream: "concurrency: 1"})
			other := dial(t, p)
			other.requestResponse("", "")
			last, _ := other.wantCompleted()
			g.Inject(point, 1)
			c := dial(t, p)
			if point != "websocket.serve" {
				c.requestResponse("", "")
			}
			// At these points, the answer has already been sent.
			if point != "attempt.end" && point != "relay.close" {
				c.wantClosed(websocket.StatusInternalError)
			}
			rig.WaitFor(t, rig.WaitTimeout, "the panic", func() bool { return g.PanicCount(place) == 1 })
			other.requestResponse("", `,"previous_response_id":"`+last.Response.ID+`"`)
			other.wantCompleted()
			_, _ = c.ws.CloseNow(), other.ws.CloseNow()
			rig.WaitFor(t, rig.WaitTimeout, "nothing is held", func() bool {
				return p.Metric("penstock_websocket_connections") == 0 && p.Metric("penstock_body_memory_bytes") == 0
			})
		})
	}
}
