package chat

import (
	"strings"
	"testing"
)

func TestRequestFacts(t *testing.T) {
	var r Request
	decode := func(body string) *Request {
		t.Helper()
		if err := r.Decode([]byte(body)); err != nil {
			t.Fatal(err)
		}
		return &r
	}

	// All optional members are absent or null. null counts as absent.
	for _, body := range []string{`{` + leastBody + `}`, bodyWith(`"stream":null,"stream_options":null,"max_tokens":null,"max_completion_tokens":null,` +
		`"reasoning":null,"reasoning_effort":null,"include_reasoning":null,"tools":null,"response_format":null,"n":null,"user":null,` +
		`"stop":null,"tool_choice":null,"logprobs":null,"top_logprobs":null,"logit_bias":null,"seed":null,"top_k":null`)} {
		r := decode(body)
		if string(r.Model) != "m" || r.Stream || r.IncludeUsage || r.Tokens.Max != -1 || r.Reasoning.Effort != "" || !r.Reasoning.Include ||
			r.ToolUse.Offered || r.StructuredOutput || r.N != 1 || len(r.Prompt.Images) != 0 {
			t.Errorf("%s: got %+v, want the defaults", body, r)
		}
		if r.Prompt.Bytes != 2 || r.Prompt.EstimateTokens(0) != 1+tokensPerMessage {
			t.Errorf("%s: %d bytes, %d tokens", body, r.Prompt.Bytes, r.Prompt.EstimateTokens(0))
		}
	}

	// All members are present.
	r2 := decode(`{"model":"caf\u00e9\/1","messages":[{"role":"system","content":"1234"},{"role":"user","content":[{"type":"text","text":"56"},` +
		`{"type":"image_url","image_url":"https://example.com/x"}]},{"role":"assistant","tool_calls":[{"id":"c","type":"function",` +
		`"function":{"name":"f","arguments":"{}"}}]}],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":7e1,` +
		`"reasoning":{"effort":"minimal"},"include_reasoning":false,"tools":[{"type":"function","function":{"name":"f"}}],"n":3,` +
		`"response_format":{"type":"json_object"}}`)
	if string(r2.Model) != "café/1" || !r2.Stream || !r2.IncludeUsage || r2.Tokens.Max != 70 || r2.Reasoning.Effort != "low" || r2.Reasoning.Include ||
		!r2.ToolUse.Offered || !r2.StructuredOutput || r2.N != 3 || len(r2.Prompt.Images) != 1 {
		t.Errorf("got %+v, want all facts of the request", r2)
	}
	if want := 4 + 2 + 1 + 2 + len(`[{"type":"function","function":{"name":"f"}}]`); r2.Prompt.Bytes != want {
		t.Errorf("%d bytes of prompt, want %d", r2.Prompt.Bytes, want)
	}
	if got, want := r2.Prompt.EstimateTokens(2), (r2.Prompt.Bytes+1)/2+3*tokensPerMessage+remoteImageTokens; got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	if n := r2.Messages().Len(); n != 3 {
		t.Errorf("got %d messages, want 3", n)
	}

	for more, want := range map[string]bool{
		`"reasoning":{}`: true, `"reasoning":{"exclude":false}`: true, `"reasoning":{"exclude":null},"include_reasoning":true`: true,
		`"reasoning":{"exclude":true}`: false, `"reasoning":{"exclude":true},"include_reasoning":true`: false,
		`"reasoning":{"exclude":false},"include_reasoning":false`: false,
	} {
		if r := decode(bodyWith(more)); r.Reasoning.Include != want {
			t.Errorf("%s: Reasoning.Include is %v", more, r.Reasoning.Include)
		}
	}
	// reasoning.enabled sets the effort only if the request has no effort.
	if r := decode(bodyWith(`"reasoning":{"enabled":false}`)); r.Reasoning.Effort != "none" {
		t.Errorf("got the effort %q, want none", r.Reasoning.Effort)
	}
	if r := decode(bodyWith(`"reasoning":{"enabled":true}`)); r.Reasoning.Effort != "" {
		t.Errorf("got the effort %q, want an empty one", r.Reasoning.Effort)
	}
	if r := decode(bodyWith(`"reasoning":{"enabled":false,"effort":"high"}`)); r.Reasoning.Effort != "high" {
		t.Errorf("got the effort %q, want high", r.Reasoning.Effort)
	}

	// After an error, a Request is ready for the next body and retains no data from the previous
	// body.
	if err := r.Decode([]byte(`{"model":"x","stream":true,"messages":5}`)); err == nil {
		t.Fatal("accepted")
	}
	if r := decode(`{` + leastBody + `}`); r.Stream || len(r.Prompt.Images) != 0 || string(r.Model) != "m" {
		t.Errorf("got %+v, want the defaults", r)
	}
	r.Reset()
	if r.Model != nil || r.Messages().Exists() || r.body != nil || r.Tokens.Max != -1 {
		t.Errorf("after Reset: %+v", &r)
	}
}

func TestLowerEffort(t *testing.T) {
	for _, c := range []struct{ words, effort, want string }{
		{"none low medium high", "xhigh", "high"},
		{"none low medium high", "medium", "medium"},
		{"low high", "medium", "low"},
		{"medium high", "low", "medium"},
		{"low", "none", "low"},
		{"max", "low", ""},
		{"", "high", ""},
	} {
		if got := NearestLowerEffort(strings.Fields(c.words), c.effort); got != c.want {
			t.Errorf("%s of %q: got %q, want %q", c.effort, c.words, got, c.want)
		}
	}
}

// TestResetForgetsThePrompt checks that a pooled request keeps nothing of the previous prompt.
func TestResetForgetsThePrompt(t *testing.T) {
	var r Request
	for _, c := range ruleCases {
		_ = r.Decode([]byte(c.body))
		r.Reset()
		p := &r.Prompt
		kept := len(p.Images) + len(p.Media) + len(p.refusals) + len(p.malformed) + len(p.contentless) + len(p.reasoning.list)
		if p.promptFacts != (promptFacts{}) || p.reasoning.toolLoop != (toolLoop{}) || p.reasoning.keepMode != "" || kept != 0 {
			t.Fatalf("%.200s: %+v is kept", c.body, p)
		}
	}
}
