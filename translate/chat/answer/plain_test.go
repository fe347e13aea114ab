package answer

import (
	"strings"
	"testing"
)

// TestPlain checks that AppendSimpleAnswer either writes the same bytes as Parse and Append, or
// rejects the answer.
func TestPlain(t *testing.T) {
	const usual = `{"id":"x","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"Hello.","reasoning_content":"so","tool_calls":[]},"logprobs":null,"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":3}}}`
	cases := []struct {
		name     string
		old, new string // old is replaced with new in usual
		plain    bool
	}{
		{"usual", "", "", true},
		{"spaces", `,"model":"m"`, " ,\n \"model\" : \"m\" ", true},
		{"no model", `"model":"m","choices":[`, `"choices":[`, false},
		{"nulls of vLLM", `"logprobs":null`, `"logprobs":null,"stop_reason":null,"token_ids":null`, true},
		{"no logprobs", `"logprobs":null,`, ``, true},
		{"logprobs", `"logprobs":null`, `"logprobs":{"content":[{"token":"H","logprob":-0.1,"bytes":[72],"top_logprobs":[]}]}`, true},
		{"refusal", `"tool_calls":[]`, `"refusal":null`, true},
		{"no content", `"content":"Hello.",`, ``, true},
		{"null content", `"Hello."`, `null`, true},
		{"fingerprint", `"usage"`, `"system_fingerprint":"fp","usage"`, true},
		{"private null", `"usage"`, `"kv_transfer_params":null,"usage"`, true},
		{"length", `"stop"`, `"length"`, true},
		{"escapes", `Hello.`, `Hello.\n\"\u00e9\"`, true},
		{"escaped beginning", `Hello.`, `\n\n Hello.`, true},
		{"markup", `Hello.`, `<think>Hello.`, true},
		{"markup after spaces", `Hello.`, `  <think>Hello.`, true},
		{"details null", `{"cached_tokens":3}`, `null`, true},
		{"details twice", `{"cached_tokens":3}`, `{"cached_tokens":3,"cached_tokens":4}`, true},
		{"reasoning", `"total_tokens"`, `"completion_tokens_details":{"reasoning_tokens":9},"total_tokens"`, true},
		{"reasoning after details", `"total_tokens"`, `"completion_tokens_details":{"reasoning_tokens":2},"reasoning_tokens":1,"total_tokens"`, true},
		{"total too small", `:12`, `:1`, true},
		{"more than the prompt cached", `:3}`, `:30}`, true},

		{"escaped markup", `Hello.`, `\n<think>Hello.`, false},
		{"surrogate", `Hello.`, `\ud800`, false},
		{"private", `"usage"`, `"kv_transfer_params":{"a":1},"usage"`, false},
		{"private of the choice", `"logprobs"`, `"disaggregated_params":1,"logprobs"`, false},
		{"error", `"usage"`, `"error":null,"usage"`, false},
		{"timings", `"usage"`, `"timings":{},"usage"`, false},
		{"delta", `"logprobs"`, `"delta":null,"logprobs"`, false},
		{"two choices", `}],"usage"`, `},{"index":1}],"usage"`, false},
		{"index", `"index":0,`, ``, false},
		{"index of one", `"index":0`, `"index":1`, false},
		{"unknown finish", `"stop"`, `"eos"`, false},
		{"aborted", `"stop"`, `"abort"`, false},
		{"not finished", `"stop"`, `null`, false},
		{"tool call", `"tool_calls":[]`, `"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`, false},
		{"parts", `"Hello."`, `[{"type":"text","text":"Hello."}]`, false},
		{"a number for content", `"Hello."`, `1`, false},
		{"role", `"assistant"`, `""`, false},
		{"id", `"x"`, `""`, false},
		{"id null", `"x"`, `null`, false},
		{"object", `"object":"chat.completion",`, ``, false},
		{"created", `1700000000`, `1700000000.5`, false},
		{"created huge", `1700000000`, `1700000000000000`, false},
		{"model twice", `"model":"m"`, `"model":"m","model":"n"`, false},
		{"message twice", `"logprobs"`, `"message":{"role":"assistant"},"logprobs"`, false},
		{"content twice", `"tool_calls"`, `"content":"b","tool_calls"`, false},
		{"large count", `:12`, `:9999999999`, false},
		{"count with a fraction", `:12`, `:12.0`, false},
		{"negative count", `:12`, `:-1`, false},
		{"no count", `"completion_tokens":5,`, ``, false},
		{"null count", `"completion_tokens":5`, `"completion_tokens":null`, false},
		{"usage null", `"usage":{`, `"usage":null,"x":{`, false},
		{"trailing data", `"cached_tokens":3}}}`, `"cached_tokens":3}}}x`, false},
		{"not whole", `"cached_tokens":3}}}`, `"cached_tokens":3}}`, false},
	}
	var c ChatCompletion
	for _, tc := range cases {
		body := strings.Replace(usual, tc.old, tc.new, 1)
		if tc.old != "" && body == usual {
			t.Fatalf("%s: nothing was changed", tc.name)
		}
		for _, strip := range []bool{false, true} {
			o := WriteOptions{Model: `pub"lic`, StripReasoning: strip}
			got, facts, plain := AppendSimpleAnswer([]byte("before"), []byte(body), &o)
			if plain != (tc.plain && !strip) {
				t.Errorf("%s, strip %v: plain %v, want %v", tc.name, strip, plain, tc.plain)
			}
			if !plain {
				if string(got) != "before" {
					t.Errorf("%s: the buffer has %q, want %q", tc.name, got, "before")
				}
				continue
			}
			if err := c.Parse([]byte(body)); err != nil {
				t.Fatalf("%s: Parse = %v, want success", tc.name, err)
			}
			if want := c.Append([]byte("before"), &o); string(got) != string(want) {
				t.Errorf("%s:\n%s\nwant\n%s", tc.name, got, want)
			}
			if want := (Facts{c.Usage(), c.Markup()}); facts != want {
				t.Errorf("%s: %v, want %v", tc.name, facts, want)
			}
		}
	}
	afterChoices := strings.Replace(strings.Replace(usual, `"model":"m",`, ``, 1), `,"usage"`, `,"model":"m","usage"`, 1)
	o := WriteOptions{Model: "public"}
	got, _, plain := AppendSimpleAnswer(nil, []byte(afterChoices), &o)
	if err := c.Parse([]byte(afterChoices)); err != nil || !plain || string(got) != string(c.Append(nil, &o)) {
		t.Errorf("model after choices: %s (%v, %v)", got, plain, err)
	}
}

func TestPlainAllocs(t *testing.T) {
	body := []byte(`{"id":"x","object":"o","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"a"},` +
		`"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	o, dst := WriteOptions{Model: "public"}, make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() {
		if _, _, plain := AppendSimpleAnswer(dst, body, &o); !plain {
			t.Fatal("not plain")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
