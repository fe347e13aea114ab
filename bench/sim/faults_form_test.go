package sim

import (
	"encoding/json"
	"strings"
	"testing"
)

// formCases test forms of streams.
var formCases = []faultCase{
	{spec: "crlf", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, "\r\n\r\n") }},
	{spec: "cr", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, "}\r\rdata: {") }},
	{spec: "nospace", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, `data:{"`) }},
	{spec: "comments", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, ": ping 3\n\n:\n") }},
	{spec: "multiline-data", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, "data: {\ndata: \"id\"") }},
	{spec: "fields", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		r.form(t, "event: message\nid: 2\nretry: 3000\ndata: {")
	}},
	{spec: "bom", only: "stream", more: sixTokens, check: func(t *testing.T, r result) { r.form(t, "\xef\xbb\xbfdata: ") }},
	{spec: "escaped", only: "stream", more: `,"sim":{"text":"Grüße 🚲"}`, check: func(t *testing.T, r result) {
		r.form(t, `\ud83d\udeb2`)
		if c := r.good(t); c.Text[0] != "Grüße 🚲" {
			t.Errorf("text = %q, want Grüße 🚲", c.Text[0])
		}
	}},
	{spec: "open-end", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		if !strings.HasSuffix(r.body, "data: [DONE]\n") {
			t.Errorf("answer = %q, want it to end in one line end", r.raw)
		}
		r.good(t)
	}},
	{spec: "byte-by-byte", more: sixTokens, check: func(t *testing.T, r result) {
		if r.stream && r.pieces != len(r.body) {
			t.Errorf("%d chunks for %d bytes", r.pieces, len(r.body))
		}
		r.good(t)
	}},
	{spec: "crlf+split;gap=10us", more: sixTokens, check: func(t *testing.T, r result) {
		if r.stream && r.pieces < len(r.body)/23 {
			t.Errorf("%d chunks for %d bytes", r.pieces, len(r.body))
		}
		r.good(t)
	}},
	{spec: "usage-every-chunk", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		r.good(t)
		if n := strings.Count(r.body, `"usage":{`); n != 8 {
			t.Errorf("%d usages, want 8", n)
		}
	}},
	{spec: "usage-on-finish", only: "stream", more: sixTokens + `,"stream_options":{"include_usage":true}`, check: func(t *testing.T, r result) {
		evs := events(r.body)
		if c := r.good(t); c.Usage.Completion != 6 || !strings.Contains(evs[len(evs)-2], `"finish_reason":"stop"`) || strings.Count(r.body, `"usage":{`) != 1 {
			t.Errorf("answer = %q, want one usage of 6 tokens, beside the finish reason", r.raw)
		}
	}},
	{spec: "no-usage", more: sixTokens, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Usage != nil {
			t.Errorf("answer = %q, want no usage", r.raw)
		}
	}},
	{spec: "usage-unasked", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Usage == nil {
			t.Errorf("answer = %q, want a usage", r.raw)
		}
	}},
	{spec: "tool-interleaved", more: weather + `,"tool_choice":{"type":"function","function":{"name":"get_weather"}}`, check: func(t *testing.T, r result) {
		c := r.good(t)
		if len(c.Calls) != 2 || !json.Valid([]byte(c.Calls[0].Args)) || !json.Valid([]byte(c.Calls[1].Args)) || c.Calls[0].ID == c.Calls[1].ID {
			t.Errorf("answer = %q, want two calls with their own ids and JSON arguments", r.raw)
		}
		if r.stream && !strings.Contains(strings.ReplaceAll(r.body, "\n", ""), `"index":1,"function"`) {
			t.Errorf("answer = %q, want pieces of the second call", r.raw)
		}
	}},
	{spec: "tool-whole", only: "stream", more: weather, check: func(t *testing.T, r result) {
		if c := r.good(t); len(c.Calls) != 1 || strings.Count(r.body, `"tool_calls":[`) != 1 {
			t.Errorf("answer = %q, want one call in one event", r.raw)
		}
	}},
	{spec: "tool-split-name", more: weather, check: func(t *testing.T, r result) {
		pieces := strings.Count(r.body, `"name":"get_"`) + strings.Count(r.body, `"name":"time"`)
		if c := r.good(t); len(c.Calls) != 1 || r.stream == (pieces != 2) {
			t.Errorf("answer = %q, want one call, its name in two pieces in a stream", r.raw)
		}
	}},
	{spec: "tool-bad-args", more: weather, check: func(t *testing.T, r result) {
		if c := r.good(t); json.Valid([]byte(c.Calls[0].Args)) {
			t.Errorf("answer = %q, want arguments that are not JSON", r.raw)
		}
	}},
}
