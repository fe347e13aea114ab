package websocket

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"penstock/proxy/access/auth"
	"penstock/proxy/e2e/rig"
)

// TestLimits checks that calls are refused for the same reasons as a POST, and that the connection
// continues.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 2 }", Limits: "request_body: 2KiB"})
	c := dial(t, p)
	c.requestResponse("", "")
	last, _ := c.wantCompleted()
	c.send(`{"type":"response.create","model":"sim","previous_response_id":%q,"input":[{"role":"user","content":%q}]}`, last.Response.ID, strings.Repeat("a", 1700))
	if e := c.refused(413, "request_too_large"); !strings.Contains(e.text, "The conversation of this connection is larger than the limit of 2048 bytes") {
		t.Errorf("refusal = %s, want a conversation above 2048 bytes", e.text)
	}
	c.requestResponse("", "")
	if e := c.refused(429, "rate_limited"); e.Headers["Retry-After"] == "" {
		t.Errorf("refusal = %s, want Retry-After", e.text)
	}
}

// TestLimits_Numbers checks that a refusal states the limit that is configured for the edge or the
// key. It must not include the bytes that the edge adds to a message.
func TestLimits_Numbers(t *testing.T) {
	t.Parallel()
	for number, s := range map[string]rig.Setup{
		"4096": {Key: "limits: { request_body: 4KiB }"},
		"2048": {Top: "limits: { request_body: 2KiB }"},
	} {
		c := dial(t, start(t, s))
		c.send(`{"type":"response.create","model":"sim","input":%q}`, strings.Repeat("a", 5000))
		if e := c.refused(413, "request_too_large"); !strings.Contains(e.text, " "+number+" bytes") {
			t.Errorf("refusal = %s, want the limit of %s bytes", e.text, number)
		}
	}
}

// TestBudgetRefusal checks that the error for an exhausted budget contains the headers that tell a
// client not to retry.
func TestBudgetRefusal(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { tokens_per_day: 100 }"})
	c := dial(t, p)
	c.requestResponse("", "")
	c.wantCompleted()
	c.requestResponse("", `,"max_output_tokens":100`)
	if e := c.refused(429, "quota_exceeded"); e.Headers["X-Should-Retry"] != "false" || e.Headers["Retry-After"] == "" {
		t.Errorf("refusal = %s, want Retry-After and no retry", e.text)
	}
}

// TestRefusedMessagesCount checks that a message that never becomes a call counts as one of the
// key's requests.
func TestRefusedMessagesCount(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 3 }"})
	c := dial(t, p)
	for _, row := range [...]struct{ message, code string }{
		{`{`, "invalid_json"},
		{`{"type":"response.create","model":"sim","input":"x","previous_response_id":"x"}`, "previous_response_not_found"},
		{`{"type":"response.create","model":"sim","input":"x","stream_id":7}`, "invalid_stream_id"},
	} {
		c.send("%s", row.message)
		c.refused(400, row.code)
	}
	for _, message := range [...]string{`{`, `{"type":"response.create","model":"sim","input":"x"}`} {
		c.send("%s", message)
		if e := c.refused(429, "rate_limited"); e.Headers["Retry-After"] == "" {
			t.Errorf("refusal = %s, want Retry-After", e.text)
		}
	}
}

// TestMessagesWithoutACallCount checks that response.steer, and a response.processed that does not
// follow a response, count as the key's requests.
func TestMessagesWithoutACallCount(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Key: "limits: { requests_per_minute: 3 }"})
	c := dial(t, p)
	c.requestResponse("", "")
	c.wantCompleted()
	c.send(`{"type":"response.processed"}`) // follows the response, so it does not count
	c.send(`{"type":"response.processed"}`)
	c.send(`{"type":"response.steer","input":"x"}`)
	if e := c.readEvent(); e.Type != "response.steer.failed" {
		t.Errorf("event = %s, want response.steer.failed", e.text)
	}
	for _, kind := range []string{"response.steer", "response.processed"} {
		c.send(`{"type":%q}`, kind)
		c.refused(429, "rate_limited")
	}
}

// TestMemory checks that a connection's stored conversations count against the memory for bodies.
// The least recently used conversation must be dropped first, and the memory must be freed when the
// connection ends.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 64KiB"})
	c := dial(t, p)
	var ids []string
	for i := range 4 {
		c.requestResponse(`"text":"`+strings.Repeat("a", 20_000)+`"`, fmt.Sprintf(`,"stream_id":"lane-%d"`, i))
		last, _ := c.wantCompleted()
		ids = append(ids, last.Response.ID)
	}
	held := p.Metric("penstock_body_memory_bytes")
	if held < 20_000 || held > 64<<10 {
		t.Errorf("%v bytes are held", held)
	}
	c.requestResponse("", fmt.Sprintf(`,"stream_id":"lane-0","previous_response_id":%q`, ids[0]))
	c.refused(400, "previous_response_not_found")
	c.requestResponse("", fmt.Sprintf(`,"stream_id":"lane-3","previous_response_id":%q`, ids[3]))
	c.answer()
	_ = c.ws.Close(websocket.StatusNormalClosure, "")
	rig.WaitFor(t, rig.WaitTimeout, "the memory is free", func() bool { return p.Metric("penstock_body_memory_bytes") == 0 })
	if n := p.Metric("penstock_websocket_connections"); n != 0 {
		t.Errorf("%v connections open, want 0", n)
	}
}

// TestIdleMemory checks that an idle connection uses only the counted memory. It runs alone,
// because it measures the heap.
func TestIdleMemory(t *testing.T) {
	const conns, size = 6, 4 << 20
	p := start(t, rig.Setup{})
	heap := func() float64 {
		runtime.GC()
		runtime.GC() // empties the pools
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
			c.send(`{"type":"response.create","model":"sim","generate":false,"input":`+form+`}`, text)
			c.wantCompleted()
		}
		rig.WaitFor(t, rig.WaitTimeout, "they hold what is counted", func() bool { return heap() < before+conns*size/4 })
		for _, c := range open {
			_ = c.ws.CloseNow()
		}
	}
}

// TestQueueBound checks that as many calls may wait as the depth of the queue allows, and that any
// further call is refused.
func TestQueueBound(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	c := dial(t, p)
	c.requestResponse(`"ttft_ms":600000`, `,"stream_id":"first"`)
	rig.WaitFor(t, rig.WaitTimeout, "the call runs", func() bool { return p.Engines[0].Stats().Running == 1 })
	for range 17 {
		c.requestResponse("", "")
	}
	c.refused(429, "websocket_queue_full")
}

// TestWaitingMessages checks that the edge decides whether a message may wait before storing the
// message. The number of a key's waiting messages, on all connections, must not exceed the number
// of its concurrent calls. The total size of a connection's waiting messages must not exceed the
// size limit for a single request.
func TestWaitingMessages(t *testing.T) {
	t.Parallel()
	large := func(c *peer) { c.requestResponse("", `,"user":"`+strings.Repeat("u", 40_000)+`"`) }
	busy := func(p *rig.LocalEdge, running int) *peer {
		c := dial(t, p)
		c.requestResponse(`"ttft_ms":600000`, "")
		rig.WaitFor(t, rig.WaitTimeout, "the call runs", func() bool { return p.Engines[0].Stats().Running == running })
		return c
	}
	p := start(t, rig.Setup{Untidy: true, Key: "limits: { concurrency: 1 }"})
	c := busy(p, 1)
	large(c)
	large(c)
	if e := c.refused(429, "rate_limited"); !strings.Contains(e.Error.Message, "1 concurrent request") {
		t.Errorf("refusal = %s, want the limit of 1 concurrent request", e.text)
	}
	c.requestResponse("", "") // a small message also counts
	c.refused(429, "rate_limited")
	_ = c.ws.CloseNow()
	rig.WaitFor(t, rig.WaitTimeout, "the memory is free", func() bool { return p.Metric("penstock_body_memory_bytes") == 0 })
	again := dial(t, p) // a waiting message does not count once its connection has ended
	again.requestResponse("", "")
	again.requestResponse("", "")
	again.wantCompleted()
	again.wantCompleted()

	p = start(t, rig.Setup{Untidy: true, Limits: "request_body: 64KiB"})
	c = busy(p, 1)
	large(c)
	large(c)
	if e := c.refused(429, "websocket_queue_full"); !strings.Contains(e.Error.Message, "exceed the size limit") {
		t.Errorf("refusal = %s, want the size limit of the queue", e.text)
	}
}

// TestWaitingMessages_Share checks that a key's waiting messages use at most half of the memory for
// bodies, so that other keys' messages fit.
func TestWaitingMessages_Share(t *testing.T) {
	t.Parallel()
	other, hash, err := auth.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	// The body memory is 10 MiB.
	p := start(t, rig.Setup{Untidy: true, Keys: `- { id: other, hash: "` + hash + `" }`, Limits: "body_memory: 1%, request_body: 1536KiB"})
	var open []*peer
	for i := range 3 {
		open = append(open, dial(t, p))
		open[i].requestResponse(`"ttft_ms":600000`, "")
	}
	rig.WaitFor(t, rig.WaitTimeout, "the calls run", func() bool { return p.Engines[0].Stats().Running == 3 })
	const size = 1400 << 10
	message := func(c *peer) { c.requestResponse("", `,"user":"`+strings.Repeat("u", size)+`"`) }
	for i := range 2 {
		message(open[i])
		rig.WaitFor(t, rig.WaitTimeout, "it waits", func() bool { return p.Metric("penstock_body_memory_bytes") >= float64((i+1)*size) })
	}
	message(open[2]) // a growing message uses more memory than its length
	open[2].refused(503, "no_body_memory")
	p.Key = other
	by := dial(t, p)
	message(by)
	by.wantCompleted()
}

// TestSlowReader checks that an engine is slowed down if the client does not read, and that such a
// client is disconnected after the write timeout.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true, Timeouts: "write: 2s"})
	c := dial(t, p)
	c.requestResponse(`"tokens":200000`, "")
	begun := time.Now()
	rig.WaitFor(t, rig.WaitTimeout, "the answer begins", func() bool { return p.Engines[0].Stats().Running == 1 })
	rig.WaitFor(t, 30*time.Second, "the client is cut", func() bool { return p.Metric("penstock_websocket_connections") == 0 })
	if time.Since(begun) < time.Second {
		t.Error("before it could be slow")
	}
	if held := p.Metric("penstock_reply_memory_bytes"); held > 32<<20 {
		t.Errorf("%v bytes of the reply are held", held)
	}
}

// TestConnectionsOfAKey checks that a key may have at most a quarter of limits.connections. Further
// connections must be refused, with the same error as a request, until one of the key's connections
// has ended.
func TestConnectionsOfAKey(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "connections: 20"})
	var open []*raw
	for range 5 {
		open = append(open, dialRaw(t, p))
	}
	ask := func() *rig.Reply {
		c := p.Dial()
		_ = c.Send(handshake(p))
		return c.ReadReply("GET")
	}
	rig.WaitFor(t, rig.WaitTimeout, "one more is refused", func() bool { return ask().Status == 429 })
	if r := ask(); !strings.Contains(r.Body, "rate_limited") || r.Header.Get("Retry-After") == "" {
		t.Errorf("answer = %d %v %s, want rate_limited with Retry-After", r.Status, r.Header, r.Body)
	}
	open[0].Close()
	rig.WaitFor(t, rig.WaitTimeout, "there is room again", func() bool { return ask().Status == 101 })
}
