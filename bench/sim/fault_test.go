package sim

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchangeRaw sends one request on a fresh connection, waits for its end and returns every byte that came.
func exchangeRaw(t *testing.T, e *Engine, body string) (raw string, reset bool) {
	t.Helper()
	nc, err := net.Dial("tcp", e.Addr())
	if err != nil { // refuse may be as fast as that
		return "", true
	}
	c := wrap(t, nc)
	_, err = fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	raw, reset = c.all()
	return raw, reset || err != nil
}

// split takes a raw answer apart without believing any of it.
func splitRaw(raw string) (head, body string) {
	head, body, _ = strings.Cut(raw, "\r\n\r\n")
	return head, body
}

// chunks joins whole chunks; rest is what does not parse.
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
	only  string // "stream" or "plain"; empty: both
	more  string // members of the request
	check func(t *testing.T, r result)
}

type result struct {
	e      *Engine
	stream bool
	raw    string
	reset  bool
	head   string
	body   string // without chunks, where there are any
	whole  bool   // of a chunked body: ended as it should
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

// good checks that the answer is a whole one after all.
func (r result) good(t *testing.T) *completion {
	t.Helper()
	if !r.stream {
		c := plainOf(t, r.body)
		if c.Finish[0] == "" {
			t.Errorf("answer %q", shorten(r.raw))
		}
		return c
	}
	c := streamOf(t, r.body)
	if !c.Done || c.Finish[0] == "" || !r.whole {
		t.Errorf("stream %q", shorten(r.raw))
	}
	return c
}

// tokensSeen is how many events came in a stream that was broken off.
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

const said6 = `,"sim":{"tokens":6}`

var faultCases = []faultCase{
	{spec: "refuse", check: func(t *testing.T, r result) {
		if r.raw != "" || !r.reset {
			t.Errorf("%q, reset %v", r.raw, r.reset)
		}
	}},
	{spec: "reset-before", check: func(t *testing.T, r result) {
		if r.raw != "" || !r.reset {
			t.Errorf("%q, reset %v", r.raw, r.reset)
		}
	}},
	{spec: "eof-before", check: func(t *testing.T, r result) {
		if r.raw != "" || r.reset {
			t.Errorf("%q, reset %v", r.raw, r.reset)
		}
	}},
	{spec: "early-413;linger=1", check: func(t *testing.T, r result) {
		r.wantHead(t, " 413 ", "Connection: close")
	}},
	{spec: "slow-header;gap=100us", more: said6, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "slow-body;gap=50us", more: `,"sim":{"tokens":2}`, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "garbage-head", check: func(t *testing.T, r result) {
		if strings.HasPrefix(r.raw, "HTTP") || r.raw == "" {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "garbage-head;kind=nocolon", check: func(t *testing.T, r result) { r.wantHead(t, "this line has no colon") }},
	{spec: "head-cut", check: func(t *testing.T, r result) {
		if r.body != "" || !strings.HasSuffix(r.head, "Content-Len") || r.reset {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "head-cut;reset=1", check: func(t *testing.T, r result) {
		if !r.reset {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "status-999", more: said6, check: func(t *testing.T, r result) { r.wantHead(t, "HTTP/1.1 999 "); r.good(t) }},
	{spec: "http09", check: func(t *testing.T, r result) {
		if !strings.HasPrefix(r.raw, "{") {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "interim=4;code=102", more: said6, check: func(t *testing.T, r result) {
		if n := strings.Count(r.raw, "HTTP/1.1 102 "); n != 4 || strings.Count(r.raw, "HTTP/1.1 200 ") != 1 {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "redirect=302", check: func(t *testing.T, r result) {
		r.wantHead(t, " 302 ", "Location: "+r.e.URL()+"/sim/redirected")
		fetch(t, r.e, "POST", "/sim/redirected", "{}")
		if r.e.Stats().Followed != 1 {
			t.Error("not counted")
		}
	}},
	{spec: "status=503;retry-after=7", check: func(t *testing.T, r result) {
		r.wantHead(t, " 503 ", "Retry-After: 7\r\n")
		if !strings.Contains(r.body, `"code":503`) {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "status=502;html=1", check: func(t *testing.T, r result) {
		r.wantHead(t, " 502 ", "text/html")
		if !strings.Contains(r.body, LeakedHost) {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "status=500", check: func(t *testing.T, r result) {
		if !strings.Contains(r.body, LeakedHost) || !strings.Contains(r.body, LeakedPath) {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "status=400;message=too bad;type=odd_error", check: func(t *testing.T, r result) {
		if r.body != `{"error":{"message":"too bad","type":"odd_error","param":null,"code":400}}` {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "no-content", check: func(t *testing.T, r result) {
		if r.raw != "HTTP/1.1 204 No Content\r\n\r\n" {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "huge-header", more: said6, check: func(t *testing.T, r result) {
		if len(r.head) < 300<<10 || len(r.head) > 320<<10 {
			t.Errorf("head of %d", len(r.head))
		}
		r.good(t)
	}},
	{spec: "leak-headers", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "Set-Cookie: ", LeakedSecret, LeakedHost, "Access-Control-Allow-Origin: *")
		r.good(t)
	}},
	{spec: "two-content-length", only: "plain", check: func(t *testing.T, r result) {
		if strings.Count(strings.ToLower(r.head), "content-length: ") != 2 {
			t.Errorf("%q", r.head)
		}
	}},
	{spec: "te-and-cl", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "Transfer-Encoding: chunked", "Content-Length: 5\r\n")
		r.good(t)
	}},
	{spec: "close-delimited", more: said6, check: func(t *testing.T, r result) {
		if strings.Contains(strings.ToLower(r.head), "content-length") || strings.Contains(strings.ToLower(r.head), "chunked") {
			t.Errorf("%q", r.head)
		}
		r.whole = true
		r.good(t)
	}},
	{spec: "chunked", only: "plain", check: func(t *testing.T, r result) { r.wantHead(t, "Transfer-Encoding: chunked"); r.good(t) }},
	{spec: "surplus", more: said6, check: func(t *testing.T, r result) {
		if !strings.HasSuffix(r.raw, "}}") || strings.Count(r.raw, "HTTP/1.1 200") != 2 || !strings.Contains(r.raw, ForgedText) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "short-body=50", only: "plain", check: func(t *testing.T, r result) {
		r.good(t)
		r.wantHead(t, fmt.Sprintf("content-length: %d\r\n", len(r.body)+50))
	}},
	{spec: "chunk-cut=3", more: said6, check: func(t *testing.T, r result) { r.broken(t, 3) }},
	{spec: "bad-chunk=3;kind=huge", more: said6, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if !strings.HasSuffix(r.raw, badChunks["huge"]) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "gzip", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "Content-Encoding: gzip\r\n")
		z, err := gzip.NewReader(strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		r.body = string(b)
		r.good(t)
	}},
	{spec: "gzip;bomb=20", check: func(t *testing.T, r result) {
		z, err := gzip.NewReader(strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, z); n < 20<<20 || err != nil || len(r.body) > 1<<20 {
			t.Errorf("%d bytes of %d: %v", n, len(r.body), err)
		}
	}},
	{spec: "empty-body", check: func(t *testing.T, r result) {
		r.wantHead(t, " 200 ", "content-length: 0\r\n")
	}},
	{spec: "html-200", check: func(t *testing.T, r result) { r.wantHead(t, " 200 ", "text/html") }},
	{spec: "invalid-json=2", more: said6, check: func(t *testing.T, r result) {
		if !r.stream {
			if json.Valid([]byte(r.body)) {
				t.Errorf("%q", r.body)
			}
			return
		}
		evs := events(r.body)
		if json.Valid([]byte(evs[2])) || !json.Valid([]byte(evs[1])) || !json.Valid([]byte(evs[3])) {
			t.Errorf("%q", evs)
		}
	}},
	{spec: "no-choices", check: func(t *testing.T, r result) {
		if strings.Contains(r.body, "choices") || !strings.Contains(r.body, `"id"`) {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "no-choices;empty=1", check: func(t *testing.T, r result) {
		if !strings.Contains(r.body, `"choices":[]`) {
			t.Errorf("%q", r.body)
		}
	}},
	{spec: "sse-for-json", only: "plain", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "text/event-stream")
		r.stream = true
		r.good(t)
	}},
	{spec: "json-for-sse", only: "stream", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "application/json")
		r.stream = false
		r.good(t)
	}},
	{spec: "json-for-sse;label=1", only: "stream", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, "application/json")
		r.good(t)
	}},
	{spec: "cut-after=3", more: said6, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if r.reset {
			t.Error("reset")
		}
	}},
	{spec: "cut-after=0", only: "stream", more: said6, check: func(t *testing.T, r result) {
		r.wantHead(t, " 200 ")
		r.broken(t, 0)
	}},
	{spec: "reset-after=3", more: said6, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if !r.reset {
			t.Error("no reset")
		}
	}},
	{spec: "close-delimited+cut-after=3", more: said6, check: func(t *testing.T, r result) { r.broken(t, 3) }},
	{spec: "pause-after=3;for=50ms", more: said6, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "error-in-stream=3", only: "stream", more: said6, check: func(t *testing.T, r result) {
		c := streamOf(t, r.body)
		if len(c.Errors) != 1 || !c.Done || !r.whole || c.Finish[0] != "" || !strings.Contains(c.Errors[0], LeakedPath) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "error-in-stream=3;done=0;code=400;message=odd", only: "stream", more: said6, check: func(t *testing.T, r result) {
		c := streamOf(t, r.body)
		if c.Done || !r.whole || c.Errors[0] != `{"message":"odd","type":"BadRequestError","param":null,"code":400}` {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "error-first", check: func(t *testing.T, r result) {
		r.wantHead(t, " 200 ")
		first := r.body
		if r.stream {
			first = events(r.body)[0]
		}
		if !strings.HasPrefix(first, `{"error":{`) || !strings.Contains(first, `"code":503`) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "no-done", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if c := streamOf(t, r.body); c.Done || c.Finish[0] != "stop" || !r.whole {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "no-finish", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if c := streamOf(t, r.body); c.Done || c.Finish[0] != "" || !r.whole || c.Text[0] == "" {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "no-finish;done=1;ghost=1", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if c := streamOf(t, r.body); !c.Done || c.Finish[0] != "" || !strings.Contains(r.body, `"model":""`) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "finish=content_filter", more: said6, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Finish[0] != "content_filter" {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "huge-event", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if c := r.good(t); len(c.Text[0]) < 2<<20 {
			t.Errorf("%d bytes", len(c.Text[0]))
		}
	}},
	{spec: "crlf", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, "\r\n\r\n") }},
	{spec: "cr", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, "}\r\rdata: {") }},
	{spec: "nospace", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, `data:{"`) }},
	{spec: "comments", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, ": ping 3\n\n:\n") }},
	{spec: "multiline-data", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, "data: {\ndata: \"id\"") }},
	{spec: "fields", only: "stream", more: said6, check: func(t *testing.T, r result) {
		r.form(t, "event: message\nid: 2\nretry: 3000\ndata: {")
	}},
	{spec: "bom", only: "stream", more: said6, check: func(t *testing.T, r result) { r.form(t, "\xef\xbb\xbfdata: ") }},
	{spec: "escaped", only: "stream", more: `,"sim":{"text":"Grüße 🚲"}`, check: func(t *testing.T, r result) {
		r.form(t, `\ud83d\udeb2`)
		if c := r.good(t); c.Text[0] != "Grüße 🚲" {
			t.Errorf("%q", c.Text[0])
		}
	}},
	{spec: "open-end", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if !strings.HasSuffix(r.body, "data: [DONE]\n") {
			t.Errorf("%q", r.raw)
		}
		r.good(t)
	}},
	{spec: "byte-by-byte", more: said6, check: func(t *testing.T, r result) {
		if r.stream && r.pieces != len(r.body) {
			t.Errorf("%d chunks for %d bytes", r.pieces, len(r.body))
		}
		r.good(t)
	}},
	{spec: "crlf+split;gap=10us", more: said6, check: func(t *testing.T, r result) {
		if r.stream && r.pieces < len(r.body)/23 {
			t.Errorf("%d chunks for %d bytes", r.pieces, len(r.body))
		}
		r.good(t)
	}},
	{spec: "usage-every-chunk", only: "stream", more: said6, check: func(t *testing.T, r result) {
		r.good(t)
		if n := strings.Count(r.body, `"usage":{`); n != 8 {
			t.Errorf("%d usages", n)
		}
	}},
	{spec: "usage-on-finish", only: "stream", more: said6 + `,"stream_options":{"include_usage":true}`, check: func(t *testing.T, r result) {
		evs := events(r.body)
		if c := r.good(t); c.Usage.Completion != 6 || !strings.Contains(evs[len(evs)-2], `"finish_reason":"stop"`) || strings.Count(r.body, `"usage":{`) != 1 {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "no-usage", more: said6, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Usage != nil {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "usage-unasked", only: "stream", more: said6, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Usage == nil {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "tool-interleaved", more: weather + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`, check: func(t *testing.T, r result) {
		c := r.good(t)
		if len(c.Calls) != 2 || !json.Valid([]byte(c.Calls[0].Args)) || !json.Valid([]byte(c.Calls[1].Args)) || c.Calls[0].ID == c.Calls[1].ID {
			t.Errorf("%q", r.raw)
		}
		if r.stream && !strings.Contains(strings.ReplaceAll(r.body, "\n", ""), `"index":1,"function"`) {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "tool-whole", only: "stream", more: weather, check: func(t *testing.T, r result) {
		if c := r.good(t); len(c.Calls) != 1 || strings.Count(r.body, `"tool_calls":[`) != 1 {
			t.Errorf("%q", r.raw)
		}
	}},
	{spec: "tool-bad-args", more: weather, check: func(t *testing.T, r result) {
		if c := r.good(t); json.Valid([]byte(c.Calls[0].Args)) {
			t.Errorf("%q", r.raw)
		}
	}},
}

// form checks that a stream is whole and carries a mark of its form.
func (r result) form(t *testing.T, mark string) {
	t.Helper()
	if !strings.Contains(r.body, mark) {
		t.Errorf("no %q in %q", mark, r.body)
	}
	r.good(t)
}

// These are tested on their own below, because their connection does not end by itself.
var openEnded = []string{"noread", "blackhole", "status-101", "endless-header", "endless-json", "endless-line", "stall-after", "keepalive-close"}

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
	for _, f := range Faults() {
		if !tested[f.Name] {
			t.Errorf("fault %s has no test", f.Name)
		}
		if f.Text == "" || !strings.Contains(faultsText(), f.Name) {
			t.Errorf("fault %s is not described", f.Name)
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

// TestFaultsByRequest: the same by header and by body, where the schedule is empty.
func TestFaultsByRequest(t *testing.T) {
	e := start(t, Options{})
	for _, body := range []string{
		chatBody("hi", `,"sim":{"fault":"status=418"}`),
		chatBody(`please [[sim {"fault":"status=418"}]]`, ``),
	} {
		if resp, _ := ask(t, e, body); resp.StatusCode != 418 {
			t.Error(resp.Status)
		}
	}
	if resp, _ := ask(t, e, chatBody("hi", `,"sim":{"fault":"status=500"}`), "X-Sim-Fault: status=418"); resp.StatusCode != 418 {
		t.Error("header does not win:", resp.Status)
	}
	if resp, body := ask(t, e, chatBody("hi", ``), "X-Sim-Fault: nope"); resp.StatusCode != 400 || !strings.Contains(body, "unknown fault") {
		t.Error(resp.Status, body)
	}
	for _, spec := range []string{"refuse", "early-413"} {
		c := dial(t, e)
		c.post("/v1/chat/completions", chatBody("hi", `,"sim":{"fault":"`+spec+`"}`))
		if raw, _ := c.all(); raw != "" && !strings.Contains(raw, " 413 ") {
			t.Errorf("%s: %q", spec, raw)
		}
	}
	for _, path := range []string{"/v1/embeddings", "/v1/rerank", "/v1/audio/speech", "/v1/completions"} {
		resp, _ := fetch(t, e, "POST", path, `{"model":"sim","input":"x","prompt":"x","query":"x","documents":["y"],"sim":{"fault":"status=418"}}`, "Content-Type: application/json")
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
		c.quiet()
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
	_, _ = c.r.Discard(2) // of the chunk
	c.quiet()
	if e.Stats().Running != 1 {
		t.Error("a stalled stream holds no slot")
	}
	_ = c.Close()
	eventually(t, "gone", func() bool { return e.Stats().Running == 0 })

	c = dial(t, e)
	c.post("/v1/chat/completions", chatBody("hi", `,"stream":true,"sim":{"fault":"stall-after=1;ping=5ms","tokens":9}`))
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
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
	if resp, _ := ask(t, e, chatBody("hi", "")); resp.StatusCode != 200 {
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
				t.Errorf("%s: %v after %d", spec, err, n)
			}
			_ = c.Close()
		}
	}
	eventually(t, "all gone", func() bool { s := e.Stats(); return s.Running == 0 && s.Conns == 0 && s.Aborted == 5 })
}

func TestKeepAliveClose(t *testing.T) {
	e := start(t, Options{})
	one := chatBody("hi", said6)
	for _, when := range []string{"now", "next", "next-reset"} {
		e.SetFault(Fault{Spec: "keepalive-close;when=" + when, Count: 1})
		c := dial(t, e)
		c.post("/v1/chat/completions", one)
		resp, _, err := c.answer()
		if err != nil || resp.Close {
			t.Fatal(err, resp)
		}
		if when != "now" {
			c.quiet()
			c.post("/v1/chat/completions", one)
		}
		if raw, reset := c.all(); raw != "" || reset != (when == "next-reset") {
			t.Errorf("%s: %q, reset %v", when, raw, reset)
		}
	}
	if s := e.Stats(); s.Completed != 3 || s.Requests != 3 {
		t.Errorf("stats %+v", s)
	}
}

// TestEarly413 sends a body that the engine never reads.
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
			resp, _ := ask(t, e, chatBody("hi", said6))
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
		t.Errorf("%d of 60", n)
	}
	e.SetFault(Fault{Spec: "status=500", Path: "/health"})
	if resp, _ := fetch(t, e, "GET", "/health", ""); resp.StatusCode != 500 {
		t.Error(resp.Status)
	}
	if got := codes(1); got[0] != 200 {
		t.Error(got)
	}
	e.SetFault(Fault{Spec: "eof-before", Path: "*"})
	c := dial(t, e)
	c.send("GET", "/v1/models", "")
	if raw, _ := c.all(); raw != "" {
		t.Error(raw)
	}
	// By HTTP; controls are never hit.
	post := func(path, body string) string {
		resp, got := fetch(t, e, "POST", path, body)
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
