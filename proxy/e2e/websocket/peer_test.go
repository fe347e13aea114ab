package websocket

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

const (
	path           = "/v1/responses"
	enabledSetting = "responses: { websocket: true }"
)

// start runs an edge with WebSocket until the test ends.
func start(t *testing.T, s rig.Setup) *rig.LocalEdge {
	t.Helper()
	s.Top += "\n" + enabledSetting
	return rig.Start(t, s)
}

// recording returns the options for one engine that records its requests.
func recording() []sim.Options { return []sim.Options{{Record: true}} }

// peer is the client's end of one connection.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
}

// event contains the members of a message that tests read.
type event struct {
	Type     string `json:"type"`
	Number   int    `json:"sequence_number"`
	Status   int    `json:"status"`
	StreamID string `json:"stream_id"`
	Delta    string `json:"delta"`
	Error    struct{ Type, Code, Message, Param string }
	Headers  map[string]string
	Response struct {
		ID       string `json:"id"`
		Previous string `json:"previous_response_id"`
		Status   string
		Output   []json.RawMessage
		Usage    *struct {
			Input int `json:"input_tokens"`
		}
	}
	text string
}

// dial connects a client with the edge's key.
func dial(t *testing.T, p *rig.LocalEdge) *peer {
	t.Helper()
	return dialBy(t, p.Edge, nil)
}

// dialBy connects a client through an HTTP client. If by is nil, it uses the default HTTP client.
func dialBy(t *testing.T, e *rig.Edge, by *http.Client) *peer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	header := map[string][]string{"Authorization": {"Bearer " + e.Key}}
	ws, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(e.URL, "http")+path, &websocket.DialOptions{HTTPHeader: header, HTTPClient: by})
	if err != nil {
		t.Fatalf("dial: %v, %+v; want a connection", err, res)
	}
	ws.SetReadLimit(64 << 20)
	c := &peer{t, ws}
	t.Cleanup(func() { _ = ws.CloseNow() })
	return c
}

// send sends a message.
func (c *peer) send(format string, args ...any) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatal(err)
	}
}

// requestResponse requests a response. The user's text controls the simulator.
func (c *peer) requestResponse(control, more string) {
	c.t.Helper()
	c.send(`{"type":"response.create","model":"sim","input":%s%s}`, userInputJSON(control), more)
}

// userInputJSON returns the user's input, which contains the canary, as JSON.
func userInputJSON(control string) string {
	text := rig.Canary
	if control != "" {
		text += " [[sim {" + control + "}]]"
	}
	words, _ := json.Marshal(text)
	return `[{"type":"message","role":"user","content":` + string(words) + `}]`
}

// readEvent reads the next message.
func (c *peer) readEvent() event {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	_, data, err := c.ws.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil {
		c.t.Fatalf("event = %s, %v; want JSON", data, err)
	}
	e.text = string(data)
	return e
}

// answer reads a response to its end, and checks the order of its events.
func (c *peer) answer() (last event, text string) {
	c.t.Helper()
	for n := 0; ; n++ {
		e := c.readEvent()
		if e.Type == "error" { // clients recognize an error by its type, with or without a status
			return e, text
		}
		if e.Number != n {
			c.t.Errorf("event %d has the number %d: %s", n, e.Number, e.text)
		}
		text += e.Delta
		switch e.Type {
		case "response.completed", "response.incomplete", "response.failed":
			return e, text
		}
	}
}

// wantCompleted is like answer, but the response must succeed.
func (c *peer) wantCompleted() (last event, text string) {
	c.t.Helper()
	e, text := c.answer()
	if e.Type != "response.completed" {
		c.t.Fatalf("event = %s, want response.completed", e.text)
	}
	return e, text
}

// refused reads the error event for a message.
func (c *peer) refused(status int, code string) event {
	c.t.Helper()
	e := c.readEvent()
	if e.Type != "error" || e.Status != status || e.Error.Code != code {
		c.t.Fatalf("not refused by %d %s: %s", status, code, e.text)
	}
	return e
}

// wantClosed reads the close of the connection and checks the code.
func (c *peer) wantClosed(code websocket.StatusCode) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	for {
		_, data, err := c.ws.Read(ctx)
		if err == nil {
			c.t.Logf("before the close: %s", data)
			continue
		}
		if got := websocket.CloseStatus(err); got != code {
			c.t.Errorf("closed with %d, want %d: %v", got, code, err)
		}
		return
	}
}
