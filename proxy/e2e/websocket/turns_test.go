package websocket

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/responses"

	"penstock/bench/sim"
	"penstock/proxy/auth"
	"penstock/proxy/e2e/rig"
)

// TestCalls: calls over WebSocket are answered by the events of a stream, and are calls as any other to metrics and log.
func TestCalls(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for range 3 {
		c.create(`"text":"Guten Tag, 世界!"`, "")
		last, text := c.completed()
		if text != "Guten Tag, 世界!" || last.StreamID != "" || last.Response.Previous != "" {
			t.Errorf("%q: %s", text, last.text)
		}
	}
	if n := p.Metric("penstock_websocket_connections"); n != 1 {
		t.Errorf("%v connections", n)
	}
	if n := p.Metric("penstock_websocket_connections_total"); n != 1 {
		t.Errorf("%v connections have been", n)
	}
	_ = c.ws.Close(websocket.StatusNormalClosure, "") // with it goes what its conversation holds
	p.Rest()
	if n := p.Metric("penstock_calls_total", `dialect="responses"`, `outcome="ok"`); n != 3 {
		t.Errorf("%v calls were counted", n)
	}
	if n := len(p.Told()); n != 3 {
		t.Errorf("%d calls are in the log", n)
	}
}

const tools = `,"tools":[{"type":"function","name":"get_weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}]`

// chat is what an engine was sent last.
func chat(t *testing.T, e *sim.Engine) (messages []map[string]any) {
	t.Helper()
	var body struct{ Messages []map[string]any }
	if err := json.Unmarshal(e.Stats().LastRequest.Body, &body); err != nil {
		t.Fatal(err)
	}
	return body.Messages
}

// roles are those of a conversation.
func roles(messages []map[string]any) string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprint(m["role"]))
	}
	return strings.Join(out, " ")
}

// TestToolTurns: a turn goes on from the last response with the outputs of its tool calls alone; the engine is sent the whole
// conversation.
func TestToolTurns(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.create(`"tool_calls":2`, tools)
	last, _ := c.completed()
	want := "user"
	for turn := range 4 {
		var outputs []string
		for _, raw := range last.Response.Output {
			var call struct {
				Type string
				ID   string `json:"call_id"`
			}
			if err := json.Unmarshal(raw, &call); err != nil || call.Type != "function_call" {
				t.Fatalf("turn %d: %s", turn, raw)
			}
			outputs = append(outputs, `{"type":"function_call_output","call_id":"`+call.ID+`","output":"21 °C"}`)
		}
		control := fmt.Sprintf(`{"role":"user","content":"[[sim {\"tool_calls\":%d}]]"}`, 2)
		before := last.Response.ID
		c.say(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[%s,%s]%s}`, before, strings.Join(outputs, ","), control, tools)
		last, _ = c.completed()
		if last.Response.Previous != before || last.Response.ID == before {
			t.Errorf("turn %d goes on from %s: %s", turn, before, last.text)
		}
		want += " assistant tool tool user"
		if got := roles(chat(t, p.Engines[0])); got != want {
			t.Errorf("turn %d: the engine has %s, want %s", turn, got, want)
		}
	}
}

// TestWhatIsKept: a lane goes on from its last response alone, whether input is a string or a list; one that has failed, or was
// followed by another, is gone.
func TestWhatIsKept(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording(), Models: "- { id: other, deployments: [{ upstream: up-0, served: sim }] }\n"})
	c := dial(t, p)
	c.say(`{"type":"response.create","model":"sim","instructions":"Be brief.","input":"one","previous_response_id":null,"stream":true,"store":false}`)
	one, _ := c.completed()
	c.say(`{"type":"response.create","model":"other","input":"two","previous_response_id":%q}`, one.Response.ID)
	two, _ := c.completed()
	if got := roles(chat(t, p.Engines[0])); got != "user assistant user" { // instructions are not carried over
		t.Errorf("the second turn: %s", got)
	}
	c.say(`{"type":"response.create","model":"sim","input":"x","previous_response_id":%q}`, one.Response.ID)
	if e := c.refused(400, "previous_response_not_found"); e.Error.Param != "previous_response_id" || strings.Contains(e.text, one.Response.ID) {
		t.Errorf("%s", e.text)
	}
	c.say(`{"type":"response.create","model":"sim","previous_response_id":%q}`, two.Response.ID) // without input: as a warm-up is followed
	three, _ := c.completed()
	if got := roles(chat(t, p.Engines[0])); got != "user assistant user assistant" {
		t.Errorf("the third turn: %s", got)
	}
	c.say(`{"type":"response.create","model":"sim","input":[{"type":"nonsense"}],"previous_response_id":%q}`, three.Response.ID)
	c.refused(400, "unsupported_parameter")
	c.say(`{"type":"response.create","model":"sim","input":"x","previous_response_id":%q}`, three.Response.ID)
	c.refused(400, "previous_response_not_found")
	p.Engines[0].SetFault(sim.Fault{Spec: "status=400;message=no", Count: 1})
	c.create("", "")
	if e := c.hear(); e.Status != 400 || e.Headers["X-Request-Id"] == "" {
		t.Errorf("%s", e.text)
	}
	c.create("", "")
	c.completed()
	if body := p.Post(path, fmt.Sprintf(`{"model":"sim","input":"x","previous_response_id":%q}`, one.Response.ID)); body.Status != 400 {
		t.Errorf("a POST goes on: %s", body.Body)
	}
}

// TestLanes: calls of all lanes run one after the other, each with its lane's id in every event; a conversation may be forked to
// another lane.
func TestLanes(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.create(`"text":"plan","delay_ms":20`, `,"stream_id":"planner.1"`)
	c.create(`"text":"risks"`, `,"stream_id":"research_2"`)
	c.create(`"text":"none"`, "")
	var ids []string
	for _, want := range []struct{ lane, text string }{{"planner.1", "plan"}, {"research_2", "risks"}, {"", "none"}} {
		text := ""
		for done := false; !done; {
			e := c.hear()
			if e.StreamID != want.lane {
				t.Fatalf("an event of %q: %s", want.lane, e.text)
			}
			text += e.Delta
			if done = e.Type == "response.completed"; done {
				ids = append(ids, e.Response.ID)
			}
		}
		if text != want.text {
			t.Errorf("lane %q: %q", want.lane, text)
		}
	}
	for _, lane := range []string{"critic", "planner.1"} {
		c.create("", fmt.Sprintf(`,"stream_id":%q,"previous_response_id":%q`, lane, ids[0]))
		if e, _ := c.answer(); e.Type != "response.completed" || e.StreamID != lane {
			t.Fatalf("the fork to %s: %s", lane, e.text)
		}
	}
	for _, bad := range []string{`""`, `"a b"`, `7`, `"` + strings.Repeat("a", 257) + `"`} {
		c.create("", `,"stream_id":`+bad)
		c.refused(400, "invalid_stream_id")
	}
	for i := range 29 {
		c.create(`"tokens":1`, fmt.Sprintf(`,"stream_id":"lane-%d"`, i))
		c.completed()
	}
	c.create("", `,"stream_id":"one-too-many"`)
	if e := c.refused(400, "websocket_stream_limit_reached"); e.StreamID != "one-too-many" {
		t.Errorf("%s", e.text)
	}
	c.create("", `,"stream_id":"lane-3"`)
	c.completed()
	c.create("", "")
	c.completed()
}

// TestLargeAnswer: an answer that is written in pieces is one message, whatever is told with it.
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
		c.create(`"text":"`+text+`"`, more)
		last, got := c.completed()
		if got != text || len(last.text) < len(text) || last.StreamID != "main" || last.Response.Previous != previous {
			t.Errorf("turn %d: %d bytes of %d: %.300s", turn, len(got), len(text), last.text)
		}
		previous = last.Response.ID
	}
}

// TestLeftOut: what of a request does not reach an engine is told with the first event, as a header tells it to a POST.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	for _, lane := range []string{"", `,"stream_id":"main"`} {
		c.create("", lane+strings.Replace(tools, "[", `[{"type":"web_search"},`, 1))
		e := c.hear()
		if e.Type != "response.created" || e.Headers["X-Penstock-Dropped"] != "tool:web_search" || (e.StreamID == "main") != (lane != "") {
			t.Errorf("%.300s", e.text)
		}
		for e.Type != "response.completed" {
			if e = c.hear(); e.Headers != nil {
				t.Errorf("%.300s", e.text)
			}
		}
		c.create("", lane+tools)
		if e := c.hear(); e.Headers != nil {
			t.Errorf("%.300s", e.text)
		}
		for e.Type = ""; e.Type != "response.completed"; e = c.hear() {
		}
	}
}

// TestOneEnd: an answer that breaks off ends its turn with one event, and the next turn begins with its own.
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
					c.create("", more)
					last, _ := c.completed()
					previous = last.Response.ID
					more += fmt.Sprintf(`,"previous_response_id":%q`, previous)
				}
				p.Engines[0].SetFault(sim.Fault{Spec: fault, Count: 1})
				c.create(`"tokens":20`, more)
				last, text := c.answer() // with events numbered one after the other
				if last.Type != "response.failed" || last.Response.Status != "failed" || last.StreamID != lane ||
					last.Response.Previous != previous || !strings.Contains(last.text, `"code":"`) || text == "" {
					t.Errorf("%s in %q: %q, %s", fault, lane, text, last.text)
				}
				p.Engines[0].SetFault()
				c.create("", "")
				if first := c.hear(); first.Type != "response.created" || first.Response.ID == last.Response.ID {
					t.Fatalf("%s in %q: the next turn begins with %s", fault, lane, first.text)
				}
				for e := c.hear(); e.Type != "response.completed"; e = c.hear() {
				}
			}
		}
	}
}

// TestWarmUp: generate: false checks a request and keeps its input, and no engine is asked.
func TestWarmUp(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Engines: recording()})
	c := dial(t, p)
	c.create("", `,"generate":false,"instructions":"Be brief."`+tools)
	last, text := c.completed()
	if text != "" || len(last.Response.Output) > 0 || last.Response.Usage == nil || last.Response.Usage.Input != 0 || last.Response.Status != "completed" {
		t.Fatalf("%s", last.text)
	}
	if n := p.Engines[0].Stats().Requests; n > 0 {
		t.Errorf("the engine was asked %d times", n)
	}
	c.say(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[]}`, last.Response.ID)
	c.completed()
	if got := roles(chat(t, p.Engines[0])); got != "user" {
		t.Errorf("behind the warm-up: %s", got)
	}
	c.say(`{"type":"response.create","model":"nobody","generate":false,"input":"x"}`)
	c.refused(404, "model_not_found")
	c.say(`{"type":"response.create","model":"sim","generate":"no","input":"x"}`)
	c.refused(400, "invalid_type")
}

// TestMessagesThatAreNoCalls: what is wrong is told and the connection goes on; what wants no answer gets none.
func TestMessagesThatAreNoCalls(t *testing.T) {
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
		c.say("%s", row.message)
		c.refused(row.status, row.code)
	}
	c.say(`{"type":"response.steer","previous_response_id":"resp_1","input":"to the left"}`)
	if e := c.hear(); e.Type != "response.steer.failed" || e.Error.Code != "steering_not_supported" || !strings.Contains(e.text, `"input":"to the left"`) {
		t.Errorf("%s", e.text)
	}
	c.say(`{"type":"response.processed","response_id":"resp_1"}`)
	c.create("", "")
	c.completed()
}

// TestOfficialClient: the official Go SDK connects, takes turns and reads every event.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	client := openai.NewClient(option.WithBaseURL(p.URL+"/v1"), option.WithAPIKey(p.Key))
	ctx, cancel := context.WithTimeout(context.Background(), rig.Patience)
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
					t.Errorf("turn %d: %s", turn, e.RawJSON())
				}
				previous = last.Response.ID
			}
		}
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
}

// TestLimits: a call is refused as a POST is: by the limits of its key, for its size, for want of a slot; and the connection goes on.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 2 }", Limits: "request_body: 2KiB"})
	c := dial(t, p)
	c.create("", "")
	last, _ := c.completed()
	c.say(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[{"role":"user","content":%q}]}`, last.Response.ID, strings.Repeat("a", 1700))
	if e := c.refused(413, "request_too_large"); !strings.Contains(e.text, "The conversation of this connection is larger than the limit of 2048 bytes") {
		t.Errorf("%s", e.text)
	}
	c.create("", "")
	if e := c.refused(429, "rate_limited"); e.Headers["Retry-After"] == "" {
		t.Errorf("%s", e.text)
	}
}

// TestBudgetRefusal: the error of a budget has the headers by which a client knows that a retry is of no use.
func TestBudgetRefusal(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { tokens_per_day: 100 }"})
	c := dial(t, p)
	c.create("", "")
	c.completed()
	c.create("", `,"max_output_tokens":100`)
	if e := c.refused(429, "quota_exceeded"); e.Headers["X-Should-Retry"] != "false" || e.Headers["Retry-After"] == "" {
		t.Errorf("%s", e.text)
	}
}

// TestRefusedMessagesCount: a message that never becomes a call is one of the key's requests.
func TestRefusedMessagesCount(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 3 }"})
	c := dial(t, p)
	for _, row := range [...]struct{ message, code string }{
		{`{`, "invalid_json"},
		{`{"type":"response.create","model":"sim","input":"x","previous_response_id":"x"}`, "previous_response_not_found"},
		{`{"type":"response.create","model":"sim","input":"x","stream_id":7}`, "invalid_stream_id"},
	} {
		c.say("%s", row.message)
		c.refused(400, row.code)
	}
	for _, message := range [...]string{`{`, `{"type":"response.create","model":"sim","input":"x"}`} {
		c.say("%s", message)
		if e := c.refused(429, "rate_limited"); e.Headers["Retry-After"] == "" {
			t.Errorf("%s", e.text)
		}
	}
}

// TestMemory: what a connection keeps is counted as bodies are, loses what was used longest ago first, and is given back.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 64KiB"})
	c := dial(t, p)
	var ids []string
	for i := range 4 {
		c.create(`"text":"`+strings.Repeat("a", 20_000)+`"`, fmt.Sprintf(`,"stream_id":"lane-%d"`, i))
		last, _ := c.completed()
		ids = append(ids, last.Response.ID)
	}
	held := p.Metric("penstock_body_memory_bytes")
	if held < 20_000 || held > 64<<10 {
		t.Errorf("%v bytes are held", held)
	}
	c.create("", fmt.Sprintf(`,"stream_id":"lane-0","previous_response_id":%q`, ids[0]))
	c.refused(400, "previous_response_not_found")
	c.create("", fmt.Sprintf(`,"stream_id":"lane-3","previous_response_id":%q`, ids[3]))
	c.answer()
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	rig.WaitFor(t, rig.Patience, "the memory is free", func() bool { return p.Metric("penstock_body_memory_bytes") == 0 })
	if n := p.Metric("penstock_websocket_connections"); n != 0 {
		t.Errorf("%v connections", n)
	}
}

// TestIdleMemory: a connection that is idle holds what is counted, not its last messages. It runs alone: it measures the heap.
func TestIdleMemory(t *testing.T) {
	const conns, size = 6, 4 << 20
	p := start(t, rig.Setup{})
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // what pools had
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc) - p.Metric("penstock_body_memory_bytes")
	}
	text, before := strings.Repeat("a", size), heap()
	for _, form := range []string{`"%s"`, `[{"type":"message","role":"user","content":"%s"}]`} {
		var open []*peer
		for range conns {
			c := dial(t, p)
			open = append(open, c)
			c.say(`{"type":"response.create","model":"sim","generate":false,"input":`+form+`}`, text)
			c.completed()
		}
		rig.WaitFor(t, rig.Patience, "they hold what is counted", func() bool { return heap() < before+conns*size/4 })
		for _, c := range open {
			_ = c.ws.CloseNow()
		}
	}
}

// TestClientLeaves: an engine stops when the client closes, with or without a word, and so do the calls that wait.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	for name, leave := range map[string]func(c *peer){
		"close": func(c *peer) { _ = c.ws.Close(websocket.StatusNormalClosure, "") },
		"gone":  func(c *peer) { _ = c.ws.CloseNow() },
	} {
		c := dial(t, p)
		c.create(`"ttft_ms":600000`, "")
		c.create("", "")
		rig.WaitFor(t, rig.Patience, name+": the call runs", func() bool { return p.Engines[0].Stats().Running == 1 })
		leave(c)
		rig.WaitFor(t, rig.Patience, name+": the engine is free", func() bool { return p.Engines[0].Stats().Running == 0 })
	}
	rig.WaitFor(t, rig.Patience, "the connections are gone", func() bool { return p.Metric("penstock_websocket_connections") == 0 })
	if n := p.Metric("penstock_calls_total", `outcome="client_gone"`); n != 2 {
		t.Errorf("%v calls of clients that left, want the two that ran", n)
	}
}

// TestDrain: an edge that drains lets the running call end and closes, and a connection without one at once.
func TestDrain(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	idle, busy := dial(t, p), dial(t, p)
	idle.create("", "")
	idle.completed()
	busy.create(`"text":"to the end","delay_ms":100`, "")
	busy.hear()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.End()
	}()
	idle.closed(websocket.StatusGoingAway)
	for e := busy.hear(); e.Type != "response.completed"; e = busy.hear() {
	}
	busy.closed(websocket.StatusGoingAway)
	<-ended
}

// TestReload: connections outlive a reload, and end with the setting.
func TestReload(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dial(t, p)
	c.create("", "")
	last, _ := c.completed()
	p.Reload(rig.Setup{Top: on, Model: "queue: { depth: 2, wait: 1s }"})
	c.create("", fmt.Sprintf(`,"previous_response_id":%q`, last.Response.ID))
	c.completed()
	p.Reload(rig.Setup{})
	c.closed(websocket.StatusGoingAway)
	if r := p.Get(path, "Connection: Upgrade", "Upgrade: websocket"); r.Status != 426 {
		t.Errorf("%d %s", r.Status, r.Body)
	}
}

// TestRevoked: the connection of a key that is taken away ends, and with on_revoke: abort its call, too.
func TestRevoked(t *testing.T) {
	t.Parallel()
	_, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, abort := range []bool{false, true} {
		top := on
		if abort {
			top += "\non_revoke: abort"
		}
		p := rig.Start(t, rig.Setup{Top: top})
		idle, busy := dial(t, p), dial(t, p)
		busy.create(`"tokens":20,"delay_ms":100`, "")
		busy.hear()
		next := rig.Setup{Config: strings.ReplaceAll(`
timeouts: { linger: 0s, drain: 5s }
`+top+`
keys: [{ id: another, hash: "HASH" }]
upstreams: [{ name: up-0, url: "{{up-0}}", engine: sim }]
models: [{ id: sim, deployments: [{ upstream: up-0 }] }]
`, "HASH", hash)}
		p.Reload(next)
		idle.closed(websocket.StatusPolicyViolation)
		for {
			e := busy.hear()
			if e.Type == "response.failed" && !abort || e.Type == "response.completed" && abort {
				t.Errorf("abort %t: %s", abort, e.text)
			}
			if strings.HasPrefix(e.Type, "response.failed") || e.Type == "response.completed" {
				break
			}
		}
		busy.closed(websocket.StatusPolicyViolation)
	}
}

// TestQueueBound: as many calls wait as may, and one more is refused.
func TestQueueBound(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	c := dial(t, p)
	c.create(`"ttft_ms":600000`, `,"stream_id":"first"`)
	rig.WaitFor(t, rig.Patience, "the call runs", func() bool { return p.Engines[0].Stats().Running == 1 })
	for range 17 {
		c.create("", "")
	}
	c.refused(429, "websocket_queue_full")
}

// TestSlowReader: a client that does not read stops its engine, and is cut when the time of a write is over.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Timeouts: "write: 2s"})
	c := dial(t, p)
	c.create(`"tokens":200000`, "")
	begun := time.Now()
	rig.WaitFor(t, 30*time.Second, "the client is cut", func() bool { return p.Metric("penstock_websocket_connections") == 0 })
	if time.Since(begun) < time.Second {
		t.Error("before it could be slow")
	}
	if held := p.Metric("penstock_reply_memory_bytes"); held > 32<<20 {
		t.Errorf("%v bytes of the reply are held", held)
	}
}
