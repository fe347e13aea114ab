// Package realtime tests realtime transcription sessions over real sockets.
package realtime

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

const path = "/v1/realtime"

// vllm and speaches return setups with the model ears at engines that speak the respective
// protocol.
func vllm(more string, engines ...sim.Options) rig.Setup { return setup("sim", more, engines) }

func speaches(more string, engines ...sim.Options) rig.Setup { return setup("speaches", more, engines) }

func setup(engine, more string, engines []sim.Options) rig.Setup {
	if len(engines) == 0 {
		engines = []sim.Options{{Record: true}}
	}
	var ups, deployments []string
	for i := range engines {
		if engine != "sim" {
			engines[i].Profile, engines[i].Models = engine, []string{"sim"}
		}
		weight := 1000
		if i > 0 {
			weight = 1
		}
		ups = append(ups, fmt.Sprintf(`  - { name: up-%d, url: "{{up-%d}}", engine: %s, weight: %d, concurrency: { text: 4, audio: 2 } }`, i, i, engine, weight))
		deployments = append(deployments, fmt.Sprintf("{ upstream: up-%d, served: sim }", i))
	}
	timeouts := "timeouts: { linger: 0s, drain: 5s, connect: 10s }\n"
	if strings.Contains(more, "timeouts:") {
		timeouts = ""
	}
	return rig.Setup{Engines: engines, Config: timeouts + more + `
keys: [{ id: tester, hash: "{{hash}}" }]
retry: { budget: 100% }
upstreams:
` + strings.Join(ups, "\n") + `
models:
  - { id: ears, kind: audio-transcription, aliases: [whisper-1], deployments: [` + strings.Join(deployments, ", ") + `] }
  - { id: talk, deployments: [{ upstream: up-0, served: sim }] }
`}
}

// peer is a client.
type peer struct {
	t  *testing.T
	ws *websocket.Conn
}

// event is the part of a message that tests read.
type event struct {
	Type       string `json:"type"`
	EventID    string `json:"event_id"`
	ItemID     string `json:"item_id"`
	Previous   string `json:"previous_item_id"`
	Delta      string `json:"delta"`
	Transcript string `json:"transcript"`
	Usage      struct {
		Type    string  `json:"type"`
		Input   int     `json:"input_tokens"`
		Output  int     `json:"output_tokens"`
		Seconds float64 `json:"seconds"`
	} `json:"usage"`
	Error struct {
		Type, Code, Message, Param string
		EventID                    string `json:"event_id"`
	} `json:"error"`
	Session struct {
		ID, Type, Object string
		Audio            struct {
			Input struct {
				Format        struct{ Rate int }
				Transcription *struct{ Model, Language string }
				TurnDetection *struct{ Type string } `json:"turn_detection"`
			}
		}
	} `json:"session"`
	text string
}

// tryDial connects a client.
func tryDial(t *testing.T, e *rig.Edge, query string, header http.Header, protocols ...string) (*peer, *http.Response, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	if header == nil {
		header = http.Header{"Authorization": {"Bearer " + e.Key}}
	}
	ws, res, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(e.URL, "http")+path+query, &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols})
	if err != nil {
		return nil, res, err
	}
	ws.SetReadLimit(1 << 20)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return &peer{t, ws}, res, nil
}

// dial connects a client with the edge's key, and reads session.created.
func dial(t *testing.T, e *rig.Edge, query string) *peer {
	t.Helper()
	c, res, err := tryDial(t, e, query, nil)
	if err != nil {
		t.Fatalf("%v, %+v", err, res)
	}
	if created := c.want("session.created"); created.Session.Type != "transcription" || created.EventID == "" || created.Session.ID == "" {
		t.Errorf("%s", created.text)
	}
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

// sendAudio sends audio that lasts the given time in milliseconds, in pieces of 100 ms.
func (c *peer) sendAudio(ms int) {
	c.t.Helper()
	piece := base64.StdEncoding.EncodeToString(make([]byte, 4800))
	for range ms / 100 {
		c.send(`{"type":"input_audio_buffer.append","audio":%q}`, piece)
	}
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
		c.t.Fatalf("%v: %s", err, data)
	}
	e.text = string(data)
	return e
}

// want reads the next message. The message must have the given type.
func (c *peer) want(kind string) event {
	c.t.Helper()
	e := c.readEvent()
	if e.Type != kind {
		c.t.Fatalf("want %s: %s", kind, e.text)
	}
	return e
}

// readUntil reads messages until one has the given type. It returns this message and the text of the
// deltas before it.
func (c *peer) readUntil(kind string) (last event, deltas string) {
	c.t.Helper()
	for {
		e := c.readEvent()
		deltas += e.Delta
		if e.Type == kind {
			return e, deltas
		}
		if e.Type == "error" {
			c.t.Fatalf("want %s: %s", kind, e.text)
		}
	}
}

// wantError reads messages up to an error with the given code.
func (c *peer) wantError(code string) event {
	c.t.Helper()
	for {
		if e := c.readEvent(); e.Type == "error" {
			if e.Error.Code != code {
				c.t.Fatalf("want %s: %s", code, e.text)
			}
			return e
		}
	}
}

// wantClosed reads until the connection is closed and checks the status code.
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

// waitNoSessions waits until no engine has a session.
func waitNoSessions(t *testing.T, p *rig.LocalEdge) {
	t.Helper()
	for i, e := range p.Engines {
		rig.WaitFor(t, rig.WaitTimeout, fmt.Sprintf("engine %d is free", i), func() bool { return e.Stats().Running == 0 })
	}
}
