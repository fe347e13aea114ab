package websocket

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"penstock/bench/sim"
	"penstock/proxy/e2e/rig"
)

// TestCalls checks that calls over WebSocket receive the events of a stream, and appear in metrics
// and the log like other calls.
func TestCalls(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for range 3 {
		c.requestResponse(`"text":"Guten Tag, 世界!"`, "")
		last, text := c.wantCompleted()
		if text != "Guten Tag, 世界!" || last.StreamID != "" || last.Response.Previous != "" {
			t.Errorf("text = %q, want Guten Tag, 世界!: %s", text, last.text)
		}
	}
	if n := p.Metric("penstock_websocket_connections"); n != 1 {
		t.Errorf("%v connections open, want 1", n)
	}
	if n := p.Metric("penstock_websocket_connections_total"); n != 1 {
		t.Errorf("%v connections have been", n)
	}
	_ = c.ws.Close(websocket.StatusNormalClosure, "") // releases the connection's conversation
	p.WaitIdle()
	if n := p.Metric("penstock_calls_total", `dialect="responses"`, `outcome="ok"`); n != 3 {
		t.Errorf("%v calls were counted", n)
	}
	if n := len(p.AccessLinesWhenIdle()); n != 3 {
		t.Errorf("%d calls are in the log", n)
	}
}

const tools = `,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`

// chat returns the last request that an engine received.
func chat(t *testing.T, e *sim.Engine) (messages []map[string]any) {
	t.Helper()
	var body struct{ Messages []map[string]any }
	if err := json.Unmarshal(e.Stats().LastRequest.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Messages
}

// roles returns the roles of a conversation.
func roles(messages []map[string]any) string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprint(m["role"]))
	}
	return strings.Join(out, " ")
}

// TestToolTurns checks that a turn that continues the last response may contain only the outputs of
// that response's tool calls. The engine must receive the complete conversation.
func TestToolTurns(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.requestResponse(`"tool_calls":2`, tools)
	last, _ := c.wantCompleted()
	want := "user"
	for turn := range 4 {
		var outputs []string
		for _, raw := range last.Response.Output {
			var call struct {
				Type string
				ID   string `json:"call_id"`
			}
			if err := json.Unmarshal(raw, &call); err != nil || call.Type != "function_call" {
				t.Fatalf("turn %d: item = %s, want a function call", turn, raw)
			}
			outputs = append(outputs, `{"type":"function_call_output","call_id":"`+call.ID+`","output":"21 °C"}`)
		}
		control := fmt.Sprintf(`{"role":"user","content":"[[sim {\"tool_calls\":%d}]]"}`, 2)
		before := last.Response.ID
		c.send(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[%s,%s]%s}`, before, strings.Join(outputs, ","), control, tools)
		last, _ = c.wantCompleted()
		if last.Response.Previous != before || last.Response.ID == before {
			t.Errorf("turn %d goes on from %s: %s", turn, before, last.text)
		}
		want += " assistant tool tool user"
		if got := roles(chat(t, p.Engines[0])); got != want {
			t.Errorf("turn %d: the engine has %s, want %s", turn, got, want)
		}
	}
}

// TestWhatIsKept checks that a lane can continue only its last response. A response must not be
// stored if it has failed or if another response has followed it.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording(), Models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }\n"})
	c := dial(t, p)
	c.send(`{"type":"response.create","model":"sim","instructions":"Be brief.","input":"one","previous_response_id":null,"stream":true,"store":false}`)
	one, _ := c.wantCompleted()
	c.send(`{"type":"response.create","model":"other","input":"two","previous_response_id":%q}`, one.Response.ID)
	two, _ := c.wantCompleted()
	if got := roles(chat(t, p.Engines[0])); got != "user assistant user" { // instructions are not carried over
		t.Errorf("the second turn: %s", got)
	}
	c.send(`{"type":"response.create","model":"sim","input":"x","previous_response_id":%q}`, one.Response.ID)
	if e := c.refused(400, "previous_response_not_found"); e.Error.Param != "previous_response_id" || strings.Contains(e.text, one.Response.ID) {
		t.Errorf("refusal = %s, want previous_response_id without the id", e.text)
	}
	// The message has no input, as after a warm-up.
	c.send(`{"type":"response.create","model":"sim","previous_response_id":%q}`, two.Response.ID)
	three, _ := c.wantCompleted()
	if got := roles(chat(t, p.Engines[0])); got != "user assistant user assistant" {
		t.Errorf("the third turn: %s", got)
	}
	c.send(`{"type":"response.create","model":"sim","input":[{"type":"nonsense"}],"previous_response_id":%q}`, three.Response.ID)
	c.refused(400, "unsupported_parameter")
	c.send(`{"type":"response.create","model":"sim","input":"x","previous_response_id":%q}`, three.Response.ID)
	c.refused(400, "previous_response_not_found")
	p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=no", Count: 1})
	c.requestResponse("", "")
	if e := c.readEvent(); e.Status != 400 || e.Headers["X-Request-Id"] == "" {
		t.Errorf("event = %s, want status 400 with a request id", e.text)
	}
	c.requestResponse("", "")
	c.wantCompleted()
	if body := p.Post(path, fmt.Sprintf(`{"model":"sim","input":"x","previous_response_id":%q}`, one.Response.ID)); body.Status != 400 {
		t.Errorf("a POST goes on: %s", body.Body)
	}
}

// TestLanes checks that the calls of all lanes run one after another, that every event has the id
// of its lane, and that another lane can fork a conversation.
func TestLanes(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.requestResponse(`"text":"plan","delay_ms":20`, `,"stream_id":"planner.1"`)
	c.requestResponse(`"text":"risks"`, `,"stream_id":"research_2"`)
	c.requestResponse(`"text":"none"`, "")
	var ids []string
	for _, want := range []struct{ lane, text string }{{"planner.1", "plan"}, {"research_2", "risks"}, {"", "none"}} {
		text := ""
		for done := false; !done; {
			e := c.readEvent()
			if e.StreamID != want.lane {
				t.Fatalf("an event of %q: %s", want.lane, e.text)
			}
			text += e.Delta
			if done = e.Type == "response.completed"; done {
				ids = append(ids, e.Response.ID)
			}
		}
		if text != want.text {
			t.Errorf("lane %q: text = %q, want %q", want.lane, text, want.text)
		}
	}
	for _, lane := range []string{"critic", "planner.1"} {
		c.requestResponse("", fmt.Sprintf(`,"stream_id":%q,"previous_response_id":%q`, lane, ids[0]))
		if e, _ := c.answer(); e.Type != "response.completed" || e.StreamID != lane {
			t.Fatalf("the fork to %s: %s", lane, e.text)
		}
	}
	for _, bad := range []string{`""`, `"a b"`, `7`, `"` + strings.Repeat("a", 257) + `"`} {
		c.requestResponse("", `,"stream_id":`+bad)
		c.refused(400, "invalid_stream_id")
	}
	for i := range 29 {
		c.requestResponse(`"tokens":1`, fmt.Sprintf(`,"stream_id":"lane-%d"`, i))
		c.wantCompleted()
	}
	c.requestResponse("", `,"stream_id":"one-too-many"`)
	if e := c.refused(400, "websocket_stream_limit_reached"); e.StreamID != "one-too-many" {
		t.Errorf("refusal = %s, want the stream one-too-many", e.text)
	}
	c.requestResponse("", `,"stream_id":"lane-3"`)
	c.wantCompleted()
	c.requestResponse("", "")
	c.wantCompleted()
}

// TestLargeAnswer checks that an answer written in pieces is still a single message.
func TestLargeAnswer(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: []sim.Options{{MaxModelLen: 1 << 21}}})
	c := dial(t, p)
	previous := ""
	for turn := range 3 {
		text := strings.Repeat(fmt.Sprintf("turn-%d-", turn), 10_000)
		more := `,"stream_id":"main"`
		if previous != "" {
			more += fmt.Sprintf(`,"previous_response_id":%q`, previous)
		}
		c.requestResponse(`"text":"`+text+`"`, more)
		last, got := c.wantCompleted()
		if got != text || len(last.text) < len(text) || last.StreamID != "main" || last.Response.Previous != previous {
			t.Errorf("turn %d: %d bytes of %d: %.300s", turn, len(got), len(text), last.text)
		}
		previous = last.Response.ID
	}
}

// TestLeftOut checks that the first event names the parts of a request that do not reach an engine,
// as a header does for a POST.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for _, lane := range []string{"", `,"stream_id":"main"`} {
		c.requestResponse("", lane+strings.Replace(tools, "[", `[{"type":"web_search"},`, 1))
		e := c.readEvent()
		if e.Type != "response.created" || e.Headers["X-Penstock-Dropped"] != "tool:web_search" || (e.StreamID == "main") != (lane != "") {
			t.Errorf("event = %.300s, want the first one with the dropped tool", e.text)
		}
		for e.Type != "response.completed" {
			if e = c.readEvent(); e.Headers != nil {
				t.Errorf("event = %.300s, want no headers", e.text)
			}
		}
		c.requestResponse("", lane+tools)
		if e := c.readEvent(); e.Headers != nil {
			t.Errorf("event = %.300s, want no headers", e.text)
		}
		for e.Type = ""; e.Type != "response.completed"; e = c.readEvent() {
		}
	}
}

// TestOneEnd checks that an aborted answer ends its turn with a single event, and that the next
// turn starts with a new sequence of events.
func TestOneEnd(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for _, fault := range []string{"reset-after=2", "error-in-stream=2", "cut-after=2", "no-finish;done=1", "no-finish"} {
		for _, lane := range []string{"", "main"} {
			for _, goesOn := range []bool{false, true} {
				more := ""
				if lane != "" {
					more = fmt.Sprintf(`,"stream_id":%q`, lane)
				}
				previous := ""
				if goesOn {
					c.requestResponse("", more)
					last, _ := c.wantCompleted()
					previous = last.Response.ID
					more += fmt.Sprintf(`,"previous_response_id":%q`, previous)
				}
				p.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
				c.requestResponse(`"tokens":20`, more)
				last, text := c.answer() // answer checks that the events are numbered consecutively
				if last.Type != "response.failed" || last.Response.Status != "failed" || last.StreamID != lane ||
					last.Response.Previous != previous || !strings.Contains(last.text, `"code":"`) || text == "" {
					t.Errorf("%s in lane %q: text %q, then %s; want response.failed after a text", fault, lane, text, last.text)
				}
				p.Engines[0].SetFault()
				c.requestResponse("", "")
				if first := c.readEvent(); first.Type != "response.created" || first.Response.ID == last.Response.ID {
					t.Fatalf("%s in %q: the next turn begins with %s", fault, lane, first.text)
				}
				for e := c.readEvent(); e.Type != "response.completed"; e = c.readEvent() {
				}
			}
		}
	}
}

// TestWarmUp checks that a request with generate: false is checked and its input is stored, without
// using an engine.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.requestResponse("", `,"generate":false,"instructions":"Be brief."`+tools)
	last, text := c.wantCompleted()
	if text != "" || len(last.Response.Output) > 0 || last.Response.Usage == nil || last.Response.Usage.Input != 0 || last.Response.Status != "completed" {
		t.Fatalf("event = %s, want a completed response without output", last.text)
	}
	if n := p.Engines[0].Stats().Requests; n > 0 {
		t.Errorf("the engine was asked %d times", n)
	}
	c.send(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[]}`, last.Response.ID)
	c.wantCompleted()
	if got := roles(chat(t, p.Engines[0])); got != "user" {
		t.Errorf("behind the warm-up: %s", got)
	}
	c.send(`{"type":"response.create","model":"nobody","generate":false,"input":"x"}`)
	c.refused(404, "model_not_found")
	c.send(`{"type":"response.create","model":"sim","generate":"no","input":"x"}`)
	c.refused(400, "invalid_type")
}

// TestMessagesWithoutACall checks that invalid messages receive errors and the connection
// continues.
func TestMessagesWithoutACall(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for _, row := range []struct {
		message string
		status  int
		code    string
	}{
		{`{"type":"response.create"`, 400, "invalid_json"},
		{`[]`, 400, "invalid_type"},
		{`{"type":"response.create","type":"x"}`, 400, "duplicate_member"},
		{`{"type":"session.update"}`, 400, "invalid_value"},
		{`{"type":"response.cancel"}`, 400, "cancel_not_supported"},
		{`{}`, 400, "invalid_value"},
		{`{"type":"response.create","model":"sim"}`, 400, "missing_parameter"},
		{`{"type":"response.create","model":"sim","input":5}`, 400, "invalid_type"},
		{`{"type":"response.create","model":"sim","input":"x","previous_response_id":7}`, 400, "invalid_type"},
		{`{"type":"response.create","model":"sim","input":"x","store":true}`, 400, "unsupported_parameter"},
		{`{"type":"response.create","model":"sim","input":"x","background":true}`, 400, "unsupported_parameter"},
		{`{"type":"response.create","model":"sim","input":"x","conversation":"c"}`, 400, "unsupported_parameter"},
	} {
		c.send("%s", row.message)
		c.refused(row.status, row.code)
	}
	c.send(`{"type":"response.steer","previous_response_id":"resp_1","input":"to the left"}`)
	if e := c.readEvent(); e.Type != "response.steer.failed" || e.Error.Code != "steering_not_supported" || !strings.Contains(e.text, `"input":"to the left"`) {
		t.Errorf("event = %s, want steering_not_supported with its input", e.text)
	}
	c.send(`{"type":"response.processed","response_id":"resp_1"}`)
	c.requestResponse("", "")
	c.wantCompleted()
}

// TestOfficialClient checks that the official Go SDK can connect, run turns and read every event.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	client := openai.NewClient(option.WithBaseURL(p.URL+"/v1"), option.WithAPIKey(p.Key))
	ctx, cancel := context.WithTimeout(context.Background(), rig.WaitTimeout)
	defer cancel()
	conn, err := client.Responses.Connect(ctx, responses.ResponseConnectionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	previous := ""
	for turn := range 3 {
		create := responses.ResponsesClientEventResponseCreateParam{Model: "sim", StreamID: openai.String("main")}
		create.Input.OfString = openai.String("hello")
		if previous != "" {
			create.PreviousResponseID = openai.String(previous)
		}
		if err := conn.Create(ctx, create); err != nil {
			t.Fatal(err)
		}
		for done := false; !done; {
			e, err := conn.Recv(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if done = e.Type == "response.completed"; done {
				last := e.AsResponseCompleted()
				if last.Response.PreviousResponseID != previous || last.Response.OutputText() == "" || last.StreamID != "main" {
					t.Errorf("turn %d: event = %s, want a text after %s", turn, e.RawJSON(), previous)
				}
				previous = last.Response.ID
			}
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// TestSilence checks that, in each turn, a waiting client receives the same events as a client that
// is waiting for an HTTP stream.
func TestSilence(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Stream: "commit_after: 50ms, keepalive: 50ms"})
	c := dial(t, p)
	previous := ""
	for range 2 {
		c.requestResponse(`"text":"Late.","ttft_ms":2000`, previous)
		alive := 0
		for n := 0; ; n++ {
			e := c.readEvent()
			if e.Number != n || (n == 0) != (e.Type == "response.created") {
				t.Errorf("event %d is %s", n, e.text)
			}
			if e.Type == "response.in_progress" {
				alive++
			}
			if e.Response.Previous != "" != (previous != "") && strings.Contains(e.text, `"response":`) {
				t.Errorf("goes on from %q: %s", previous, e.text)
			}
			if e.Type == "response.completed" {
				previous = fmt.Sprintf(`,"previous_response_id":%q`, e.Response.ID)
				break
			}
			if e.Type == "response.failed" || e.Type == "error" {
				t.Fatal(e.text)
			}
		}
		if alive < 4 {
			t.Errorf("%d signs of life", alive)
		}
	}
}
