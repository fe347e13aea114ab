package sim

import (
	"strings"
	"testing"
)

// streamCases test faults in streams.
var streamCases = []faultCase{
	{spec: "cut-after=3", more: sixTokens, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if r.reset {
			t.Error("reset")
		}
	}},
	{spec: "cut-after=0", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		r.wantHead(t, " 200 ")
		r.broken(t, 0)
	}},
	{spec: "reset-after=3", more: sixTokens, check: func(t *testing.T, r result) {
		r.broken(t, 3)
		if !r.reset {
			t.Error("no reset")
		}
	}},
	{spec: "error-in-stream=3;done=0;code=400;message=odd", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		c := streamOf(t, r.body)
		if c.Done || !r.whole || c.Errors[0] != `{"message":"odd","type":"BadRequestError","param":null,"code":400}` {
			t.Errorf("answer = %q, want the error of the fault and no [DONE]", r.raw)
		}
	}},
	{spec: "error-first", check: func(t *testing.T, r result) {
		r.wantHead(t, " 200 ")
		first := r.body
		if r.stream {
			first = events(r.body)[0]
		}
		if !strings.HasPrefix(first, `{"error":{`) || !strings.Contains(first, `"code":503`) {
			t.Errorf("answer = %q, want it to begin with an error of code 503", r.raw)
		}
	}},
	{spec: "no-done", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		if c := streamOf(t, r.body); c.Done || c.Finish[0] != "stop" || !r.whole {
			t.Errorf("answer = %q, want the finish stop and no [DONE]", r.raw)
		}
	}},
	{spec: "no-finish", more: sixTokens, check: func(t *testing.T, r result) {
		if !r.stream {
			if !strings.Contains(r.body, `"finish_reason":null`) {
				t.Errorf("answer = %q, want a null finish reason", r.raw)
			}
			return
		}
		if c := streamOf(t, r.body); c.Done || c.Finish[0] != "" || !r.whole || c.Text[0] == "" {
			t.Errorf("answer = %q, want a text without a finish reason and [DONE]", r.raw)
		}
	}},
	{spec: "no-finish;done=1;ghost=1", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		if c := streamOf(t, r.body); !c.Done || c.Finish[0] != "" || !strings.Contains(r.body, `"model":""`) {
			t.Errorf("answer = %q, want [DONE] and an event without a model, but no finish reason", r.raw)
		}
	}},
	{spec: "finish=content_filter", more: sixTokens, check: func(t *testing.T, r result) {
		if c := r.good(t); c.Finish[0] != "content_filter" {
			t.Errorf("answer = %q, want the finish content_filter", r.raw)
		}
	}},
	{spec: "huge-event", only: "stream", more: sixTokens, check: func(t *testing.T, r result) {
		if c := r.good(t); len(c.Text[0]) < 2<<20 {
			t.Errorf("text of %d bytes, want 2 MiB or more", len(c.Text[0]))
		}
	}},
}
