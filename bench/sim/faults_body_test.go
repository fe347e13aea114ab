package sim

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
)

// wantSecondReply checks that a forged response follows a valid response.
func wantSecondReply(t *testing.T, r result) {
	if !strings.HasSuffix(r.raw, "}}") || strings.Count(r.raw, "HTTP/1.1 200") != 2 || !strings.Contains(r.raw, ForgedText) {
		t.Errorf("answer = %q, want a second, forged reply after it", r.raw)
	}
}

// bodyCases test faults in bodies.
var bodyCases = []faultCase{
	{spec: "close-delimited", more: sixTokens, check: func(t *testing.T, r result) {
		if strings.Contains(strings.ToLower(r.head), "content-length") || strings.Contains(strings.ToLower(r.head), "chunked") {
			t.Errorf("head = %q, want neither a length nor chunks", r.head)
		}
		r.whole = true
		r.good(t)
	}},
	{spec: "chunked", only: "plain", check: func(t *testing.T, r result) { r.wantHead(t, "Transfer-Encoding: chunked"); r.good(t) }},
	{spec: "padded=300000", only: "plain", check: func(t *testing.T, r result) {
		if n := len(r.body); n != 300000 || !strings.HasPrefix(r.body, `{"padding":"www`) {
			t.Errorf("body of %d bytes: %.40q; want 300000 with padding", n, r.body)
		}
		r.wantHead(t, "Content-Length: 300000")
		r.good(t)
	}},
	{spec: "status=500+padded=70000;at=end", check: func(t *testing.T, r result) {
		if n := len(r.body); n != 70000 || !strings.HasSuffix(r.body, `www"}`) || !json.Valid([]byte(r.body)) {
			t.Errorf("body of %d bytes: %.40q; want 70000 of JSON, padded at the end", n, r.body)
		}
	}},
	{spec: "surplus", more: sixTokens, check: wantSecondReply},
	{spec: "second-reply;within=2ms", more: sixTokens, check: wantSecondReply},
	{spec: "short-body=50", only: "plain", check: func(t *testing.T, r result) {
		r.good(t)
		r.wantHead(t, fmt.Sprintf("content-length: %d\r\n", len(r.body)+50))
	}},
	{spec: "chunk-cut=3", more: sixTokens, check: func(t *testing.T, r result) { r.broken(t, 3) }},
	{spec: "bad-chunk=3;kind=huge", more: sixTokens, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if !strings.HasSuffix(r.raw, "ffffffffffffffff1\r\nhello\r\n") {
			t.Errorf("answer = %q, want it to end in a huge chunk size", r.raw)
		}
	}},
	{spec: "gzip", more: sixTokens, check: func(t *testing.T, r result) {
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
	{spec: "invalid-json=2", more: sixTokens, check: func(t *testing.T, r result) {
		if !r.stream {
			if json.Valid([]byte(r.body)) {
				t.Errorf("body = %q, want invalid JSON", r.body)
			}
			return
		}
		evs := events(r.body)
		if json.Valid([]byte(evs[2])) || !json.Valid([]byte(evs[1])) || !json.Valid([]byte(evs[3])) {
			t.Errorf("events = %q, want the third alone to be invalid JSON", evs)
		}
	}},
	{spec: "no-choices", check: func(t *testing.T, r result) {
		if strings.Contains(r.body, "choices") || !strings.Contains(r.body, `"id"`) {
			t.Errorf("body = %q, want an id and no choices", r.body)
		}
	}},
	{spec: "no-choices;empty=1", check: func(t *testing.T, r result) {
		if !strings.Contains(r.body, `"choices":[]`) {
			t.Errorf("body = %q, want empty choices", r.body)
		}
	}},
	{spec: "sse-for-json", only: "plain", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, "text/event-stream")
		r.stream = true
		r.good(t)
	}},
	{spec: "json-for-sse", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, "application/json")
		r.stream = false
		r.good(t)
	}},
	{spec: "json-for-sse;label=1", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, "application/json")
		r.good(t)
	}},
	{spec: "close-delimited+cut-after=3", more: sixTokens, check: func(t *testing.T, r result) { r.broken(t, 3) }},
	{spec: "pause-after=3;for=50ms", more: sixTokens, check: func(t *testing.T, r result) { r.good(t) }},
	{spec: "error-in-stream=3", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		c := streamOf(t, r.body)
		if len(c.Errors) != 1 || !c.Done || !r.whole || c.Finish[0] != "" || !strings.Contains(c.Errors[0], LeakedPath) {
			t.Errorf("answer = %q, want one error in the stream, then [DONE]", r.raw)
		}
	}},
}
