package websocket

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"penstock/proxy/e2e/rig"
)

// The client in these tests does not use a library, so that it can violate RFC 6455, 5.2.

const (
	opContinue = 0x0
	opText     = 0x1
	opBinary   = 0x2
	opClose    = 0x8
	opPing     = 0x9
	opPong     = 0xa
	fin        = 0x80
)

// handshake returns the upgrade request, with additional or replaced header lines.
func handshake(p *rig.LocalEdge, lines ...string) string {
	good := []string{"Connection: keep-alive, Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		for i, g := range good {
			if strings.HasPrefix(g, name+": ") {
				good[i], line = line, ""
				if value == "" {
					good[i] = "X-Left: out"
				}
			}
		}
		if line != "" {
			good = append(good, line)
		}
	}
	return p.RequestHead("GET", path, good...)
}

// raw is a connection that has been upgraded.
type raw struct {
	*rig.RawConn
	t rapid.TB
}

func dialRaw(t *testing.T, p *rig.LocalEdge) *raw {
	t.Helper()
	c := p.Dial()
	_ = c.Send(handshake(p))
	r := c.ReadReply("GET")
	if r.Status != 101 || r.Header.Get("Sec-WebSocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" || r.Header.Get("Sec-WebSocket-Extensions") != "" {
		t.Fatalf("answer = %d %v %s, want 101 without extensions", r.Status, r.Header, r.Body)
	}
	return &raw{c, t}
}

// frame returns a masked frame.
func frame(first byte, payload string) string { return rig.WebSocketFrame(first, payload, true) }

// next reads a frame from the edge. The frame must be complete and must not be masked.
func (c *raw) next() (op byte, payload string) {
	c.t.Helper()
	op, payload, err := c.ReadFrame()
	if err != nil {
		c.t.Fatal(err)
	}
	return op, payload
}

// readUntil reads frames until a payload contains text.
func (c *raw) readUntil(text string) {
	c.t.Helper()
	for {
		op, payload := c.next()
		if op == opClose {
			c.t.Fatalf("the connection is closed: %q, want a message", payload)
		}
		if strings.Contains(payload, text) {
			return
		}
	}
}

// wantClosed reads until the close frame and checks its code.
func (c *raw) wantClosed(code int) {
	c.t.Helper()
	for {
		if op, payload := c.next(); op == opClose {
			if len(payload) < 2 || int(binary.BigEndian.Uint16([]byte(payload))) != code {
				c.t.Errorf("closed by %q, want %d", payload, code)
			}
			return
		}
	}
}

const hello = `{"type":"response.create","model":"sim","input":"` + rig.Canary + `"}`

// TestFragments checks that a message may be split into arbitrary fragments, with pings and pongs
// between the fragments.
func TestFragments(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dialRaw(t, p)
	rapid.Check(t, func(rt *rapid.T) {
		c.t = rt
		pieces := rapid.SliceOfN(rapid.IntRange(0, 60), 0, 6).Draw(rt, "pieces")
		rest, first, pings := hello, byte(opText), 0
		var all strings.Builder
		for _, n := range pieces {
			n = min(n, len(rest))
			all.WriteString(frame(first, rest[:n]))
			rest, first = rest[n:], opContinue
			switch rapid.IntRange(0, 2).Draw(rt, "between") {
			case 1:
				all.WriteString(frame(fin|opPing, "between"))
				pings++
			case 2:
				all.WriteString(frame(fin|opPong, "unasked"))
			}
		}
		all.WriteString(frame(fin|first, rest))
		_ = c.SetDeadline(time.Now().Add(rig.WaitTimeout))
		text := all.String()
		for len(text) > 0 { // the frames are also sent in random pieces
			n := min(rapid.IntRange(1, 400).Draw(rt, "written"), len(text))
			_ = c.Send(text[:n])
			text = text[n:]
		}
		for done := false; !done; {
			op, payload := c.next()
			switch op {
			case opPong:
				pings--
				if payload != "between" {
					rt.Errorf("a pong has %q", payload)
				}
			case opText:
				done = strings.Contains(payload, `"type":"response.completed"`)
			default:
				rt.Fatalf("a frame of kind %d: %q", op, payload)
			}
		}
		if pings != 0 {
			rt.Errorf("%d pings were not answered", pings)
		}
	})
}

// TestWrongFrames checks that forbidden frames end only their connection, with the correct code.
func TestWrongFrames(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	for name, row := range map[string]struct {
		bytes string
		code  int
	}{
		"unmasked":                  {rig.WebSocketFrame(fin|opText, hello, false), 1002},
		"reserved bit":              {frame(fin|0x40|opText, hello), 1002},
		"reserved kind":             {frame(fin|0x3, hello), 1002},
		"reserved control":          {frame(fin|0xb, ""), 1002},
		"continuation of nothing":   {frame(fin|opContinue, hello), 1002},
		"a message within another":  {frame(opText, hello) + frame(fin|opText, hello), 1002},
		"a ping in pieces":          {frame(opPing, "x"), 1002},
		"a ping that is too long":   {frame(fin|opPing, strings.Repeat("x", 126)), 1002},
		"a close of one byte":       {frame(fin|opClose, "x"), 1002},
		"a close with a wrong code": {frame(fin|opClose, "\x03\xed"), 1002},
		"bytes":                     {frame(fin|opBinary, hello), 1003},
		"not UTF-8":                 {frame(fin|opText, "{\"type\":\"\xff\"}"), 1007},
		"a close":                   {frame(fin|opClose, "\x03\xe8bye"), 1000},
		"a close of the client's":   {frame(fin|opClose, "\x0f\xa0bye"), 4000},
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, p)
			_ = c.Send(row.bytes)
			c.wantClosed(row.code)
			_ = c.Send(frame(fin|opClose, ""))
			if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
				t.Errorf("not closed behind it: %q", rest)
			}
		})
	}
	c := dialRaw(t, p)
	_ = c.Send(frame(fin|opText, hello))
	c.readUntil(`"type":"response.completed"`)
}

// large returns a message of n bytes that does not reach an engine.
func large(n int) string {
	const begin, end = `{"type":"response.create","model":"none","input":"`, `"}`
	return begin + strings.Repeat("a", n-len(begin)-len(end)) + end
}

// TestLargeMessages checks that a message of the maximum size is accepted, in one frame or in
// fragments. A larger message, or a frame that only announces a larger size, must receive an error
// and end the connection with 1009.
func TestLargeMessages(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 9MiB"})
	const limit = 9 << 20
	c := dialRaw(t, p)
	message := large(limit) // the edge converts the input to an item, which is longer
	_ = c.Send(frame(fin|opText, message))
	c.readUntil(`"model_not_found"`)
	_ = c.Send(frame(opText, message[:limit/2]) + frame(fin|opContinue, message[limit/2:]))
	c.readUntil(`"model_not_found"`)
	go func(c *raw) { _ = c.Send(frame(fin|opText, large(limit+1))) }(c)
	c.readUntil(`{"type":"error","status":413,"error":{`)
	c.wantClosed(1009)
	for _, length := range []uint64{limit + 1, 1 << 40, 1<<63 - 1} {
		c = dialRaw(t, p)
		_ = c.Send(string(binary.BigEndian.AppendUint64([]byte{fin | opText, 0x80 | 127}, length)) + "\x00\x00\x00\x00")
		go func(c *raw) { _ = c.Send(strings.Repeat("{", limit+2)) }(c)
		c.readUntil(`"request_too_large"`)
		c.wantClosed(1009)
	}
}

// TestAnnounced checks that a message that announces a length above the limit is rejected before it
// is received, regardless of which frame announces the length.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 1MiB", Timeouts: "client_body: 1h"})
	head := func(first byte, n uint64) string {
		return string(binary.BigEndian.AppendUint64([]byte{first, 0x80 | 127}, n)) + "\x00\x00\x00\x00"
	}
	for name, bytes := range map[string]string{
		"at once":                head(fin|opText, 1<<20+1),
		"behind another message": frame(fin|opText, hello) + head(fin|opText, 1<<40),
		"in a second frame":      frame(opText, hello[:20]) + head(fin|opContinue, 1<<20),
		"in pieces with a ping":  frame(opText, large(1<<19)) + frame(fin|opPing, "x") + frame(opContinue, large(1<<19)) + head(opContinue, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c := dialRaw(t, p)
			_ = c.Send(bytes)
			c.readUntil(`{"type":"error","status":413,"error":{`)
			c.wantClosed(1009)
		})
	}
}

// TestEmptyFragments checks that the number of empty fragments in a message is limited. Otherwise,
// a client could keep the edge busy forever.
func TestEmptyFragments(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	c := dialRaw(t, p)
	for range 2 {
		_ = c.Send(frame(opText, "") + strings.Repeat(frame(opContinue, ""), 500) + frame(opContinue, hello) + strings.Repeat(frame(opContinue, ""), 400) + frame(fin|opContinue, ""))
		c.readUntil(`"type":"response.completed"`)
	}
	// The client sends fragments until the edge closes the connection.
	go func() { _ = c.Send(frame(opText, "{") + strings.Repeat(frame(opContinue, ""), 300_000)) }()
	c.wantClosed(1008)
}

// TestMessageMemory checks that, if there is no memory for a message, the client receives an error
// and the connection continues. A message that is too large must receive a different error.
func TestMessageMemory(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Limits: "request_body: 9MiB, body_memory: 1%"}) // the body memory is 10 MiB
	c := dialRaw(t, p)
	for range 3 {
		_ = c.Send(frame(fin|opText, large(8<<20)))
		c.readUntil(`{"type":"error","status":503,"headers":{"Retry-After":"`)
		if n := p.Metric("penstock_body_memory_bytes"); n > 1<<20 { // at most the memory for a conversation
			t.Errorf("%v bytes are held", n)
		}
		_ = c.Send(frame(fin|opText, hello))
		c.readUntil(`"type":"response.completed"`)
	}
	go func(c *raw) { _ = c.Send(frame(fin|opText, large(9<<20+1))) }(c)
	c.readUntil(`"request_too_large"`)
	c.wantClosed(1009)
}

// TestSlowMessage checks that a message must be complete within the timeout for bodies.
func TestSlowMessage(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Timeouts: "client_body: 500ms"})
	c := dialRaw(t, p)
	time.Sleep(time.Second) // a client may be silent between messages
	_ = c.Send(frame(opText, hello[:10]))
	c.wantClosed(1008)
}

// TestHandshakes checks that an invalid handshake gets an HTTP error, and that the connection
// continues.
func TestHandshakes(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Top: "cors: { origins: [\"https://listed.example\"] }"})
	c := p.Dial()
	for _, row := range []struct {
		lines  []string
		status int
		code   string
	}{
		{[]string{"Upgrade: "}, 405, "method_not_allowed"},
		{[]string{"Upgrade: h2c"}, 405, "method_not_allowed"},
		{[]string{"Connection: keep-alive"}, 426, "bad_request"},
		{[]string{"Sec-WebSocket-Version: 8"}, 400, "bad_request"},
		{[]string{"sec-websocket-version: 8"}, 400, "bad_request"},
		{[]string{"Sec-WebSocket-Key: "}, 400, "bad_request"},
		{[]string{"Sec-WebSocket-Key: c2hvcnQ="}, 400, "bad_request"},
		{[]string{"x-api-key: another"}, 401, "credential_conflict"},
		{[]string{"Origin: https://elsewhere.example"}, 403, "operation_not_allowed"},
	} {
		_ = c.Send(handshake(p, row.lines...))
		r := c.ReadReply("GET").WantStatus(row.status)
		if !strings.Contains(r.Body, `"code":"`+row.code+`"`) {
			t.Errorf("%q: answer = %s, want the code %s", row.lines, r.Body, row.code)
		}
		r.WantConforming("GET", path)
	}
	for _, origin := range []string{"Origin: https://listed.example", "Origin: http://edge", "Origin: vscode-webview://x"} {
		c := p.Dial()
		_ = c.Send(handshake(p, origin))
		c.ReadReply("GET").WantStatus(101)
	}
}

// TestHandshakeWithBody checks that an upgrade request with a body is rejected, and that the bytes
// after the request are not read as frames or as another request.
func TestHandshakeWithBody(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{})
	early := frame(fin|opText, hello)
	for name, row := range map[string]struct{ line, body string }{
		"chunked":           {"Transfer-Encoding: chunked", fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(early), early)},
		"chunked and empty": {"Transfer-Encoding: chunked", "0\r\n\r\n" + early},
		"of a length":       {fmt.Sprintf("Content-Length: %d", len(early)), early},
		"not yet sent":      {"Content-Length: 100000", ""},
	} {
		c := p.Dial()
		_ = c.Send(handshake(p, row.line) + row.body)
		r := c.ReadReply("GET").WantStatus(400)
		if !strings.Contains(r.Body, `"code":"bad_request"`) || r.Header.Get("Upgrade") != "" {
			t.Errorf("%s: answer = %v %s, want bad_request without an upgrade", name, r.Header, r.Body)
		}
		r.WantConforming("GET", path)
		if rest, ok := c.WaitClosed(rig.WaitTimeout); !ok || rest != "" {
			t.Errorf("%s: not closed behind it: %q", name, rest)
		}
	}
	if n := p.Metric("penstock_websocket_connections_total"); n != 0 {
		t.Errorf("%v connections have been", n)
	}
	c := p.Dial()
	_ = c.Send(handshake(p, "Content-Length: 0"))
	c.ReadReply("GET").WantStatus(101)
}

// TestEarlyFrames checks that the edge reads frames that arrive together with the upgrade request.
func TestEarlyFrames(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	c := p.Dial()
	_ = c.Send(handshake(p) + frame(fin|opText, hello))
	c.ReadReply("GET").WantStatus(101)
	(&raw{c, t}).readUntil(`"type":"response.completed"`)
}

// TestFuzzedFrames checks that the edge serves other clients and leaks no resources, regardless of
// the frames that it receives.
func TestFuzzedFrames(t *testing.T) {
	t.Parallel()
	p := start(t, rig.Setup{Untidy: true})
	rapid.Check(t, func(rt *rapid.T) {
		c := dialRaw(t, p)
		defer c.Close()
		n := rapid.IntRange(1, 5).Draw(rt, "frames")
		var b strings.Builder
		for range n {
			first := byte(rapid.IntRange(0, 255).Draw(rt, "first"))
			payload := rapid.SampledFrom([]string{"", hello, "{}", "\xff\xfe", strings.Repeat("x", 200)}).Draw(rt, "payload")
			b.WriteString(rig.WebSocketFrame(first, payload, rapid.IntRange(0, 9).Draw(rt, "masked") > 0))
		}
		text := b.String()
		if cut := rapid.IntRange(0, len(text)).Draw(rt, "cut"); rapid.Bool().Draw(rt, "is cut") {
			text = text[:cut]
		}
		_ = c.Send(text)
	})
	c := dialRaw(t, p)
	_ = c.Send(frame(fin|opText, hello))
	c.readUntil(`"type":"response.completed"`)
	c.Close()
	rig.WaitFor(t, rig.WaitTimeout, "all are gone", func() bool {
		return p.Metric("penstock_websocket_connections") == 0 && p.Metric("penstock_body_memory_bytes") == 0
	})
	for _, where := range []string{"websocket", "stream", "handler"} {
		if n := p.Metric("penstock_panics_total", fmt.Sprintf("where=%q", where)); n > 0 {
			t.Errorf("%v panics in %s", n, where)
		}
	}
}
