package chat

import (
	"encoding/json"
	"testing"
)

// TestGoOn checks that an engine that continues an answer receives the answer so far.
func TestGoOn(t *testing.T) {
	const asked = `{"role":"user","content":"x"}`
	begun := PartialAnswer{Text: []byte(`Grüß \"Gott\"\n`), Tokens: 3}
	thought := PartialAnswer{Text: []byte(`4`), Reasoning: []byte(`2+2`), Tokens: 5}
	vllm := EngineFormat{Served: "m", Prefill: []Member{{Name: "continue_final_message", Value: []byte(`true`)}}}
	for name, c := range map[string]struct {
		body      string
		prefilled bool
		begun     *PartialAnswer
		format    EngineFormat
		want      string
	}{
		"alone": {
			body: `{"model":"m","messages":[` + asked + `]}`, begun: &begun, format: EngineFormat{Served: "m"},
			want: `{"model":"m","messages":[` + asked + `,{"role":"assistant","content":"Grüß \"Gott\"\n"}]}`,
		},
		"members of the engine, and the rest of the limit": {
			body: `{"model":"m","messages":[` + asked + `],"max_tokens":10}`, begun: &begun, format: vllm,
			want: `{"continue_final_message":true,"model":"m","messages":[` + asked +
				`,{"role":"assistant","content":"Grüß \"Gott\"\n"}],"max_tokens":7}`,
		},
		"counts of each token": {
			body: `{"model":"m","messages":[` + asked + `],"stream":true,"stream_options":{"include_usage":true}}`, begun: &thought,
			format: EngineFormat{Served: "m", TokenTimings: true},
			want: `{"timings_per_token":true,"model":"m","messages":[` + asked +
				`,{"role":"assistant","reasoning_content":"2+2","content":"4"}],"stream":true,"stream_options":{"include_usage":true}}`,
		},
		"behind reasoning": {
			body: `{"model":"m","messages":[` + asked + `],"max_completion_tokens":10}`, begun: &thought, format: EngineFormat{Served: "m"},
			want: `{"model":"m","messages":[` + asked +
				`,{"role":"assistant","reasoning_content":"2+2","content":"4"}],"max_completion_tokens":5}`,
		},
		"behind what the client has begun": {
			body: `{"model":"m","messages":[` + asked + `,{"role":"assistant","content":"Well: "}]}`, prefilled: true, begun: &begun, format: vllm,
			want: `{"continue_final_message":true,"model":"m","messages":[` + asked +
				`,{"role":"assistant","content":"Well: Grüß \"Gott\"\n"}]}`,
		},
	} {
		var r Request
		if err := r.Decode([]byte(c.body)); err != nil {
			t.Fatal(err)
		}
		r.Prefilled = c.prefilled
		if !IsResumable(&r) {
			t.Errorf("%s: cannot be gone on with", name)
		}
		c.begun.AttachTo(&r)
		got := string(r.AppendEngineRequest(nil, &c.format))
		if got != c.want || !json.Valid([]byte(got)) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		r.Reset()
		if r.partial != nil || r.Tokens.GeneratedTokens() != 0 {
			t.Errorf("%s: the next request goes on with it, too", name)
		}
	}
}

// TestContinues checks which members of a request rule out a continuation.
func TestContinues(t *testing.T) {
	for members, want := range map[string]bool{
		``:                                     true,
		`,"n":1,"logprobs":false,"echo":false`: true,
		`,"tools":[{"type":"function","function":{"name":"f"}}]`: true,
		`,"n":2`:           false,
		`,"logprobs":true`: false,
		`,"response_format":{"type":"json_object"}`: false,
		`,"guided_regex":"a+"`:                      false,
		`,"structured_outputs":{"choice":["a"]}`:    false,
		`,"grammar":"root ::= [ab]"`:                false,
		`,"echo":true`:                              false,
	} {
		var r Request
		if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"x"}]` + members + `}`)); err != nil {
			t.Fatal(members, err)
		}
		if got := IsResumable(&r); got != want {
			t.Errorf("Continues with %s = %v, want %v", members, got, want)
		}
	}
	var r Request // Prefilled is false, so the assistant message at the end is complete
	if err := r.Decode([]byte(`{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":"y"}]}`)); err != nil || IsResumable(&r) {
		t.Error(err, "the last message is the assistant's")
	}
	if n := (&TokenLimit{Max: 10, defaultLimit: -1, contextLimit: -1}).TokensLeft(12); n != 0 {
		t.Errorf("%d tokens are left", n)
	}
}
