package sim

import (
	"strings"
	"testing"
)

// headCases test faults in heads.
var headCases = []faultCase{
	{spec: "garbage-head;kind=nocolon", check: func(t *testing.T, r result) { r.wantHead(t, "this line has no colon") }},
	{spec: "head-cut", check: func(t *testing.T, r result) {
		if r.body != "" || !strings.HasSuffix(r.head, "Content-Len") || r.reset {
			t.Errorf("answer = %q, want it to end within the head, without a reset", r.raw)
		}
	}},
	{spec: "head-cut;reset=1", check: func(t *testing.T, r result) {
		if !r.reset {
			t.Errorf("answer = %q without a reset, want one", r.raw)
		}
	}},
	{spec: "status-999", more: sixTokens, check: func(t *testing.T, r result) { r.wantHead(t, "HTTP/1.1 999 "); r.good(t) }},
	{spec: "http09", check: func(t *testing.T, r result) {
		if !strings.HasPrefix(r.raw, "{") {
			t.Errorf("answer = %q, want a body without a head", r.raw)
		}
	}},
	{spec: "interim=4;code=102", more: sixTokens, check: func(t *testing.T, r result) {
		if n := strings.Count(r.raw, "HTTP/1.1 102 "); n != 4 || strings.Count(r.raw, "HTTP/1.1 200 ") != 1 {
			t.Errorf("answer = %q, want 4 times 102 and one 200", r.raw)
		}
	}},
	{spec: "redirect=302", check: func(t *testing.T, r result) {
		r.wantHead(t, " 302 ", "Location: "+r.e.URL()+"/sim/redirected")
		sendRequest(t, r.e, "POST", "/sim/redirected", "{}")
		if r.e.Stats().Followed != 1 {
			t.Error("not counted")
		}
	}},
	{spec: "status=503;retry-after=7", check: func(t *testing.T, r result) {
		r.wantHead(t, " 503 ", "Retry-After: 7\r\n")
		if !strings.Contains(r.body, `"code":503`) {
			t.Errorf("body = %q, want the code 503", r.body)
		}
	}},
	{spec: "status=502;html=1", check: func(t *testing.T, r result) {
		r.wantHead(t, " 502 ", "text/html")
		if !strings.Contains(r.body, LeakedHost) {
			t.Errorf("body = %q, want %s in it", r.body, LeakedHost)
		}
	}},
	{spec: "status=500", check: func(t *testing.T, r result) {
		if !strings.Contains(r.body, LeakedHost) || !strings.Contains(r.body, LeakedPath) {
			t.Errorf("body = %q, want %s and %s in it", r.body, LeakedHost, LeakedPath)
		}
	}},
	{spec: "status=400;message=too bad;type=odd_error", check: func(t *testing.T, r result) {
		if r.body != `{"error":{"message":"too bad","type":"odd_error","param":null,"code":400}}` {
			t.Errorf("body = %q, want the message and the type of the fault", r.body)
		}
	}},
	{spec: "no-content", check: func(t *testing.T, r result) {
		if r.raw != "HTTP/1.1 204 No Content\r\n\r\n" {
			t.Errorf("answer = %q, want 204 without a body", r.raw)
		}
	}},
	{spec: "huge-header", more: sixTokens, check: func(t *testing.T, r result) {
		if len(r.head) < 300<<10 || len(r.head) > 320<<10 {
			t.Errorf("head of %d", len(r.head))
		}
		r.good(t)
	}},
	{spec: "leak-headers", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, "Set-Cookie: ", LeakedSecret, LeakedHost, "Access-Control-Allow-Origin: *")
		r.good(t)
	}},
	{spec: "two-content-length", only: "plain", check: func(t *testing.T, r result) {
		if strings.Count(strings.ToLower(r.head), "content-length: ") != 2 {
			t.Errorf("head = %q, want two content lengths", r.head)
		}
	}},
	{spec: "te-and-cl", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, "Transfer-Encoding: chunked", "Content-Length: 5\r\n")
		r.good(t)
	}},
}
