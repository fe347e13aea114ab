package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/bench/sim/fault"
)

// exchangeRaw sends one request on a new connection, waits until the connection ends, and returns
// all received bytes.
func exchangeRaw(t *testing.T, e *Engine, body string) (raw string, reset bool) {
	t.Helper()
	nc, err := net.Dial("tcp", e.Addr())
	if err != nil { // refuse may close the connection this early
		return "", true
	}
	c := wrap(t, nc)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	raw, reset = c.readRaw()
	return raw, reset || err != nil
}

// splitRaw splits a raw response at its first empty line.
func splitRaw(raw string) (head, body string) {
	head, body, _ = strings.Cut(raw, "\r\n\r\n")
	return head, body
}

// joinChunks joins the complete chunks. whole is false if the body contains any other bytes.
func joinChunks(body string) (joined string, whole bool, n int) {
	for {
		var size int
		line, rest, ok := strings.Cut(body, "\r\n")
		if _, err := fmt.Sscanf(line, "%x", &size); err != nil || !ok {
			return joined, false, n
		}
		if size == 0 {
			return joined, rest == "\r\n", n
		}
		if len(rest) < size+2 || rest[size:size+2] != "\r\n" {
			return joined, false, n
		}
		joined += rest[:size]
		body = rest[size+2:]
		n++
	}
}

type faultCase struct {
	spec  string
	only  string // "stream" or "plain"; empty for both
	more  string // additional members of the request
	check func(t *testing.T, r result)
}

type result struct {
	e      *Engine
	stream bool
	raw    string
	reset  bool
	head   string
	body   string // body without the framing of chunks
	whole  bool   // the chunked body was complete
	pieces int
}

func (r result) wantHead(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(strings.ToLower(r.head+"\r\n"), strings.ToLower(w)) {
			t.Errorf("no %q in head %q", w, shorten(r.head))
		}
	}
}

// good checks that the response is complete.
func (r result) good(t *testing.T) *completion {
	t.Helper()
	if !r.stream {
		c := plainOf(t, r.body)
		if c.Finish[0] == "" {
			t.Errorf("answer = %q, want a finish reason", shorten(r.raw))
		}
		return c
	}
	c := streamOf(t, r.body)
	if !c.Done || c.Finish[0] == "" || !r.whole {
		t.Errorf("stream = %q, want it complete with a finish reason and [DONE]", shorten(r.raw))
	}
	return c
}

// broken checks that the response does not look complete. For a stream, it also checks the number
// of events.
func (r result) broken(t *testing.T, want int) {
	t.Helper()
	if r.whole || strings.Contains(r.body, "[DONE]") {
		t.Errorf("looks whole: %q", shorten(r.raw))
	}
	if r.stream {
		if n := strings.Count(r.body, "\n\n"); n != want {
			t.Errorf("%d events, want %d: %q", n, want, shorten(r.raw))
		}
	} else if json.Valid([]byte(r.body)) {
		t.Errorf("JSON is whole: %q", shorten(r.raw))
	}
}

const sixTokens = `,"sim":{"tokens":6}`

var faultCases = slices.Concat(connectionCases, headCases, bodyCases, streamCases, formCases)

// form checks that a stream is complete, and that it contains mark, a text that occurs only in a
// stream of this form.
func (r result) form(t *testing.T, mark string) {
	t.Helper()
	if !strings.Contains(r.body, mark) {
		t.Errorf("no %q in %q", mark, r.body)
	}
	r.good(t)
}

// openEnded lists faults that are tested separately below, because they do not end the connection.
var openEnded = []string{"wedge", "slow-health", "busy-health", "long-prefill", "buffered-call", "lost-after", "noread", "blackhole", "status-101", "endless-header", "endless-json", "endless-line", "stall-after", "keepalive-close"}

func TestEveryFaultIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range faultCases {
		for one := range strings.SplitSeq(c.spec, "+") {
			name, _, _ := strings.Cut(one, ";")
			name, _, _ = strings.Cut(name, "=")
			tested[name] = true
		}
	}
	for _, n := range openEnded {
		tested[n] = true
	}
	for _, name := range fault.Names() {
		if !tested[name] {
			t.Errorf("fault %s has no test", name)
		}
		if !regexp.MustCompile(`(?m)^` + name + `\W.*\s+\w`).MatchString(fault.HelpText()) {
			t.Errorf("fault %s is not described", name)
		}
	}
}

func TestFaults(t *testing.T) {
	for _, c := range faultCases {
		for _, stream := range []bool{true, false} {
			if c.only == "stream" && !stream || c.only == "plain" && stream {
				continue
			}
			t.Run(fmt.Sprintf("%s/stream=%v", c.spec, stream), func(t *testing.T) {
				t.Parallel()
				e := start(t, Options{})
				e.SetFault(Fault{Spec: c.spec})
				r := result{e: e, stream: stream}
				more := c.more
				if stream {
					more += `,"stream":true`
				}
				r.raw, r.reset = exchangeRaw(t, e, chatBody("hi", more))
				rest := r.raw
				for strings.HasPrefix(rest, "HTTP/1.1 1") {
					_, rest, _ = strings.Cut(rest, "\r\n\r\n")
				}
				r.head, r.body = splitRaw(rest)
				if strings.Contains(strings.ToLower(r.head), "transfer-encoding: chunked") {
					r.body, r.whole, r.pieces = joinChunks(r.body)
				}
				c.check(t, r)
				eventually(t, "nothing is left", func() bool {
					s := e.Stats()
					return s.Running == 0 && s.Conns == 0 && s.Faults == 1 && s.Aborted == 0
				})
			})
		}
	}
}

// TestFaultsByRequest checks that a request can cause a fault with a header or a body member while
// the schedule is empty.
func TestFaultsByRequest(t *testing.T) {
	e := start(t, Options{})
	for _, body := range []string{
		chatBody("hi", `,"sim":{"fault":"status=418"}`),
		chatBody(`please [[sim {"fault":"status=418"}]]`, ``),
	} {
		if resp, _ := sendChat(t, e, body); resp.StatusCode != 418 {
			t.Error(resp.Status)
		}
	}
	if resp, _ := sendChat(t, e, chatBody("hi", `,"sim":{"fault":"status=500"}`), "X-Sim-Fault: status=418"); resp.StatusCode != 418 {
		t.Error("header does not win:", resp.Status)
	}
	if resp, body := sendChat(t, e, chatBody("hi", ``), "X-Sim-Fault: nope"); resp.StatusCode != 400 || !strings.Contains(body, "unknown fault") {
		t.Error(resp.Status, body)
	}
	for _, spec := range []string{"refuse", "early-413"} {
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"fault":"`+spec+`"}`))
		if raw, _ := c.readRaw(); raw != "" && !strings.Contains(raw, " 413 ") {
			t.Errorf("fault %s: answer = %q, want nothing or 413", spec, raw)
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/v1/audio/speech", "/v1/completions"} {
		resp, _ := sendRequest(t, e, "POST", path, `{"model":"sim","input":"x","prompt":"x","query":"x","documents":["y"],"sim":{"fault":"status=418"}}`, "Content-Type: application/json")
		if resp.StatusCode != 418 {
			t.Error(path, resp.Status)
		}
	}
}

func TestBlackholeAndStall(t *testing.T) {
	e := start(t, Options{})
	for _, spec := range []string{"blackhole", "noread", "status-101"} {
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"fault":"`+spec+`"}`))
		if spec == "status-101" {
			if resp, err := http.ReadResponse(c.r, nil); err != nil || resp.StatusCode != 101 {
				t.Fatal(err)
			}
		}
		c.wantSilence()
		_ = c.Close()
	}
	eventually(t, "all gone", func() bool { s := e.Stats(); return s.Running == 0 && s.Aborted == 3 && s.Conns == 0 })

	c := dial(t, e)
	c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"sim":{"fault":"stall-after=3","tokens":9}`))
	var got []byte
	for strings.Count(string(got), "\n\n") < 3 {
		b, err := c.r.ReadByte()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b)
	}
	_, _ = c.r.Discard(2) // line break after the chunk
	c.wantSilence()
	if e.Stats().Running != 1 {
		t.Error("a stalled stream holds no slot")
	}
	_ = c.Close()
	eventually(t, "gone", func() bool { return e.Stats().Running == 0 })

	c = dial(t, e)
	c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"sim":{"fault":"stall-after=1;ping=5ms","tokens":9}`))
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	for n := 0; n < 3; {
		line, err := c.r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if line == ":\n" {
			n++
		}
	}
	_ = c.Close()
	eventually(t, "gone", func() bool { return e.Stats().Running == 0 && e.Stats().Aborted == 5 })
}

func TestNoRead(t *testing.T) {
	e := start(t, Options{})
	e.SetFault(Fault{Spec: "noread", Count: 1})
	c := dial(t, e)
	_ = c.Conn.(*net.TCPConn).SetWriteBuffer(4096)
	_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
	if n, err := c.Write(bytes.Repeat([]byte("x"), 8<<20)); err == nil {
		t.Errorf("%d bytes were taken", n)
	}
	_ = c.Close()
	if resp, _ := sendChat(t, e, chatBody("hi", "")); resp.StatusCode != 200 {
		t.Error("count is not kept")
	}
}

func TestEndless(t *testing.T) {
	e := start(t, Options{})
	for _, spec := range []string{"endless-header", "endless-json", "endless-line"} {
		for _, stream := range []bool{true, false} {
			if spec == "endless-line" && !stream {
				continue
			}
			c := dial(t, e)
			c.post("/v1/chat/completions", chatBody("hi", fmt.Sprintf(`,"stream":%v,"sim":{"fault":"%s"}`, stream, spec)))
			if n, err := io.CopyN(io.Discard, c.r, 3<<20); err != nil {
				t.Errorf("fault %s: %v after %d bytes, want an endless answer", spec, err, n)
			}
			_ = c.Close()
		}
	}
	eventually(t, "all gone", func() bool { s := e.Stats(); return s.Running == 0 && s.Conns == 0 && s.Aborted == 5 })
}

func TestKeepAliveClose(t *testing.T) {
	e := start(t, Options{})
	one := chatBody("hi", sixTokens)
	for _, when := range []string{"now", "next", "next-reset"} {
		e.SetFault(Fault{Spec: "keepalive-close;when=" + when, Count: 1})
		c := dial(t, e)
		c.post("/v1/chat/completions", one)
		resp, _, err := c.answer()
		if err != nil || resp.Close {
			t.Fatal(err, resp)
		}
		if when != "now" {
			c.wantSilence()
			c.post("/v1/chat/completions", one)
		}
		if raw, reset := c.readRaw(); raw != "" || reset != (when == "next-reset") {
			t.Errorf("fault %s: answer = %q, reset %v; want nothing", when, raw, reset)
		}
	}
	if s := e.Stats(); s.Completed != 3 || s.Requests != 3 {
		t.Errorf("stats = %+v, want 3 requests, all completed", s)
	}
}

// TestEarly413 sends a body that the engine does not read before it responds.
func TestEarly413(t *testing.T) {
	e := start(t, Options{})
	e.SetFault(Fault{Spec: "early-413;linger=1"})
	c := dial(t, e)
	go func() {
		_, _ = io.WriteString(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
		_, _ = c.Write(bytes.Repeat([]byte("x"), 100000))
	}()
	resp, body, err := c.answer()
	if err != nil || resp.StatusCode != 413 || !strings.Contains(body, "too large") {
		t.Error(resp, body, err)
	}
	_ = c.Close()
}

func TestSchedule(t *testing.T) {
	e := start(t, Options{})
	codes := func(n int) (got []int) {
		for range n {
			resp, _ := sendChat(t, e, chatBody("hi", sixTokens))
			got = append(got, resp.StatusCode)
		}
		return got
	}
	e.SetFault(Fault{Spec: "status=500", After: 1, Count: 2}, Fault{Spec: "status=429", Count: 1})
	if got := fmt.Sprint(codes(5)); got != "[429 500 500 200 200]" {
		t.Error(got)
	}
	e.SetFault(Fault{Spec: "status=500", Share: 0.5})
	if n := strings.Count(fmt.Sprint(codes(60)), "500"); n < 10 || n > 50 {
		t.Errorf("%d of 60 answers are 500, want about half", n)
	}
	e.SetFault(Fault{Spec: "status=500", Path: "/health"})
	if resp, _ := sendRequest(t, e, "GET", "/health", ""); resp.StatusCode != 500 {
		t.Error(resp.Status)
	}
	if got := codes(1); got[0] != 200 {
		t.Error(got)
	}
	e.SetFault(Fault{Spec: "eof-before", Path: "*"})
	c := dial(t, e)
	c.send("GET", "/v1/models", "")
	if raw, _ := c.readRaw(); raw != "" {
		t.Error(raw)
	}
	// This test sets faults over HTTP. Faults never affect control requests.
	post := func(path, body string) string {
		resp, got := sendRequest(t, e, "POST", path, body)
		if resp.StatusCode != 200 {
			return resp.Status + got
		}
		return ""
	}
	if got := post("/sim/reset", ""); got != "" {
		t.Error(got)
	}
	if got := codes(1); got[0] != 200 {
		t.Error(got)
	}
	if got := post("/sim/fault", `{"fault":"status=503","count":1}`); got != "" {
		t.Error(got)
	}
	if got := fmt.Sprint(codes(2)); got != "[503 200]" {
		t.Error(got)
	}
	if got := post("/sim/fault", `[{"fault":"status=503","count":1},{"fault":"status=504"}]`); got != "" {
		t.Error(got)
	}
	if got := fmt.Sprint(codes(2)); got != "[503 504]" {
		t.Error(got)
	}
	for _, bad := range []string{`{"fault":"nope"}`, `{"fault":"cut-after=x"}`, `{"fault":"crlf;x=1"}`, `{"fault":"crlf=3"}`, `{"fault":"status=99"}`, `nope`, `{"fault":"crlf","share":2}`} {
		if got := post("/sim/fault", bad); !strings.HasPrefix(got, "400") {
			t.Error(bad, got)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("SetFault takes a bad spec")
		}
	}()
	e.SetFault(Fault{Spec: "nope"})
}
