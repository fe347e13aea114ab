package websocket

import (
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestClientLeaves checks that the engine and waiting calls stop when the client closes the
// connection, with or without a close frame.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	for name, leave := range map[string]func(c *peer){
		"close": func(c *peer) { _ = c.ws.Close(websocket.StatusNormalClosure, "") },
		"gone":  func(c *peer) { _ = c.ws.CloseNow() },
	} {
		c := dial(t, p)
		c.requestResponse(`"ttft_ms":600000`, "")
		c.requestResponse("", "")
		rig.WaitFor(t, rig.WaitTimeout, name+": the call runs", func() bool { return p.Engines[0].Stats().Running == 1 })
		leave(c)
		rig.WaitFor(t, rig.WaitTimeout, name+": the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
	}
	rig.WaitFor(t, rig.WaitTimeout, "the connections are gone", func() bool { return p.Metric("penstock_websocket_connections") == 0 })
	if n := p.Metric("penstock_calls_total", `outcome="client_gone"`); n != 2 {
		t.Errorf("%v calls of clients that left, want the two that ran", n)
	}
}

// TestDrain checks that a draining edge closes a connection after its running call has ended, and
// immediately closes a connection that has no call.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	idle, busy := dial(t, p), dial(t, p)
	idle.requestResponse("", "")
	idle.wantCompleted()
	busy.requestResponse(`"text":"to the end","delay_ms":100`, "")
	busy.readEvent()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	idle.wantClosed(websocket.StatusGoingAway)
	for e := busy.readEvent(); e.Type != "response.completed"; e = busy.readEvent() {
	}
	busy.wantClosed(websocket.StatusGoingAway)
	rig.Receive(t, 2*rig.WaitTimeout, "the edge ends", ended)
}

// TestReload checks that connections survive a reload, unless the reload disables WebSocket.
func TestReload(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	c.requestResponse("", "")
	last, _ := c.wantCompleted()
	p.Reload(rig.Setup{Top: enabledSetting, Model: "queue: { depth: 2, wait: 1s }"})
	c.requestResponse("", fmt.Sprintf(`,"previous_response_id":%q`, last.Response.ID))
	c.wantCompleted()
	p.Reload(rig.Setup{})
	c.wantClosed(websocket.StatusGoingAway)
	if r := p.Get(path, "Connection: Upgrade", "Upgrade: websocket"); r.Status != 426 {
		t.Errorf("answer = %d %s, want 426", r.Status, r.Body)
	}
}

// TestRevoked checks that a removed key's connection ends and, if on_revoke is abort, its call also
// ends.
func TestRevoked(t *testing.T) {
	t.Parallel()
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, abort := range []bool{false, true} {
		top := enabledSetting
		if abort {
			top += "\non_revoke: abort"
		}
		p := rig.Start(t, rig.Setup{Top: top})
		idle, busy := dial(t, p), dial(t, p)
		tokens := 20
		if abort { // the call must still be running when the key is revoked
			tokens = 1000
		}
		busy.requestResponse(fmt.Sprintf(`"tokens":%d,"delay_ms":100`, tokens), "")
		busy.readEvent()
		next := rig.Setup{Config: strings.ReplaceAll(`
timeouts: { linger: 0s, drain: 5s }
`+top+`
keys: [{ id: another, hash: "HASH" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`, "HASH", hash)}
		p.Reload(next)
		idle.wantClosed(websocket.StatusPolicyViolation)
		for {
			e := busy.readEvent()
			if e.Type == "response.failed" && !abort || e.Type == "response.completed" && abort {
				t.Errorf("abort %t: event = %s, want response.failed only after an abort", abort, e.text)
			}
			if strings.HasPrefix(e.Type, "response.failed") || e.Type == "response.completed" {
				break
			}
		}
		busy.wantClosed(websocket.StatusPolicyViolation)
	}
}
