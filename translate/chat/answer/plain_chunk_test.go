package answer

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate/sse"
)

// compareStreams appends an event to two streams and compares the results. long parses every event.
func compareStreams(t rapid.TB, short, long *Stream, data string) (failed bool) {
	t.Helper()
	ev := sse.Event{Data: []byte(data)}
	got, gotErr := short.Append([]byte("before "), ev)
	want, wantErr := long.Append([]byte("before "), forceParsing(ev))
	if !bytes.Equal(got, want) || (gotErr == nil) != (wantErr == nil) {
		t.Fatalf("%s: got %q, %v; want %q, %v", data, got, gotErr, want, wantErr)
	}
	if !reflect.DeepEqual(short.state, long.state) || short.started != long.started || short.opening != long.opening ||
		!reflect.DeepEqual(short.identity, long.identity) || short.held.awaitsTimings != long.held.awaitsTimings ||
		!bytes.Equal(short.held.event, long.held.event) {
		t.Fatalf("%s: the streams differ:\n%+v\n%+v", data, short.callScopedState, long.callScopedState)
	}
	return gotErr != nil
}

// TestPlainChunk checks that a chunk that is read in one pass becomes the same event as a parsed
// chunk. All other chunks must be parsed.
func TestPlainChunk(t *testing.T) {
	const (
		head    = `{"id":"x","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[`
		role    = head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`
		content = head + `{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}`
		end     = head + `{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`
		usage   = head + `],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`
	)
	cases := []struct {
		name, chunk string
		old, new    string // old is replaced with new in the chunk
		plain       bool
	}{
		{"role", role, "", "", true},
		{"content", content, "", "", true},
		{"end", end, "", "", true},
		{"usage", usage, "", "", true},
		{"spaces", content, `,"model":"m"`, " ,\n \"model\" : \"m\" ", true},
		{"vLLM's role", role, `"content":""`, `"content":"","reasoning_content":null`, true},
		{"vLLM's end", end, `"finish_reason":"stop"`, `"finish_reason":"stop","stop_reason":null`, true},
		{"SGLang's nulls", content, `"content":"Hi"`, `"role":null,"content":"Hi","reasoning_content":null,"tool_calls":null`, true},
		{"SGLang's null usage", content, `]}`, `],"usage":null}`, true},
		{"llama.cpp's null content", role, `""`, `null`, true},
		{"fingerprint", content, `"choices"`, `"system_fingerprint":"fp","choices"`, true},
		{"fingerprint at the end", content, `]}`, `],"system_fingerprint":"fp"}`, true},
		{"length", end, `"stop"`, `"length"`, true},
		{"empty finish", content, `"finish_reason":null`, `"finish_reason":""`, true},
		{"no finish", content, `,"finish_reason":null`, ``, true},
		{"logprobs", content, `"logprobs":null`, `"logprobs":{"content":[{"token":"H","logprob":-0.1,"bytes":[72],"top_logprobs":[]}]}`, true},
		{"escapes", content, `Hi`, `Hi\n\"\u00e9\"`, true},
		{"role with text", content, `"content"`, `"role":"assistant","content"`, true},
		{"empty role", content, `"content"`, `"role":"","content"`, true},
		{"end with text", end, `{}`, `{"content":"Hi"}`, true},
		{"another id", content, `"x"`, `"y"`, true},
		{"id behind", content, `{"id":"x",`, `{`, false},
		{"cached", usage, `"total_tokens"`, `"prompt_tokens_details":{"cached_tokens":3},"total_tokens"`, true},
		{"details null", usage, `"total_tokens"`, `"prompt_tokens_details":null,"total_tokens"`, true},
		{"private null", usage, `,"usage"`, `,"kv_transfer_params":null,"usage"`, true},

		{"two choices", content, `}]}`, `},{"index":1,"delta":{"content":"b"}}]}`, false},
		{"choice 1", content, `"index":0`, `"index":1`, false},
		{"no index", content, `"index":0,`, ``, false},
		{"no delta", end, `"delta":{},`, ``, false},
		{"null delta", end, `{}`, `null`, false},
		{"message", end, `"logprobs"`, `"message":{},"logprobs"`, false},
		{"unknown end", end, `"stop"`, `"eos"`, false},
		{"aborted", end, `"stop"`, `"abort"`, false},
		{"escaped end", end, `"stop"`, `"\u0073top"`, false},
		{"tool call", content, `"content":"Hi"`, `"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]`, false},
		{"reasoning", content, `"content":"Hi"`, `"reasoning_content":"so"`, false},
		{"refusal", content, `"content":"Hi"`, `"refusal":"no"`, false},
		{"parts", content, `"Hi"`, `[{"type":"text","text":"Hi"}]`, false},
		{"a number for content", content, `"Hi"`, `1`, false},
		{"surrogate", content, `Hi`, `\ud800`, false},
		{"content twice", content, `"Hi"`, `"Hi","content":"Ho"`, false},
		{"model twice", content, `"model":"m"`, `"model":"m","model":"n"`, false},
		{"model behind the choices", content, `]}`, `],"model":"m"}`, false},
		{"no model", content, `"model":"m",`, ``, false},
		{"object", content, `"object":"chat.completion.chunk",`, ``, false},
		{"id null", content, `"x"`, `null`, false},
		{"created", content, `1700000000`, `1700000000.5`, false},
		{"private", content, `]}`, `],"kv_transfer_params":{"a":1}}`, false},
		{"private of the choice", content, `"logprobs":null`, `"disaggregated_params":1`, false},
		{"error", content, `]}`, `],"error":{"message":"m"}}`, false},
		{"timings", end, `]}`, `],"timings":{"prompt_n":1,"predicted_n":2}}`, false},
		{"progress", content, `]}`, `],"prompt_progress":{}}`, false},
		{"usage with a choice", content, `]}`, `],"usage":{"prompt_tokens":7,"completion_tokens":5}}`, false},
		{"usage twice", usage, `"usage"`, `"usage":null,"usage"`, false},
		{"null usage alone", usage, `{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}`, `null`, false},
		{"no completion tokens", usage, `"completion_tokens":5,`, ``, false},
		{"large count", usage, `:12`, `:9999999999`, false},
		{"null choices", usage, `[]`, `null`, false},
		{"no choices", usage, `"choices":[],`, ``, false},
		{"not whole", content, `]}`, `]`, false},
		{"trailing data", content, `]}`, `]}x`, false},
		{"choices twice", content, `]}`, `],"choices":[]}`, false},
	}
	before := [][]string{{}, {role}, {role, content}, {content}, {content, end}, {role, content, end}, {role, content, end, usage}}
	after := []string{content, end, end, usage, usage}
	for _, tc := range cases {
		chunk := strings.Replace(tc.chunk, tc.old, tc.new, 1)
		if tc.old != "" && chunk == tc.chunk {
			t.Fatalf("%s: nothing was changed", tc.name)
		}
		for _, o := range plainOptions() {
			for _, events := range before {
				var short, long Stream
				short.Reset(&o)
				long.Reset(&o)
				failed := false
				for _, data := range events {
					failed = failed || compareStreams(t, &short, &long, data)
				}
				failed = failed || compareStreams(t, &short, &long, chunk)
				for _, data := range after {
					failed = failed || compareStreams(t, &short, &long, data)
				}
			}
		}
		var s Stream
		s.Reset(&WriteOptions{Model: "public", IncludeUsage: true})
		for _, data := range []string{role, content} {
			if _, ok := s.appendSimpleChunk(nil, []byte(data)); !ok {
				t.Fatalf("not plain: %s", data)
			}
		}
		if _, plain := s.appendSimpleChunk(nil, []byte(chunk)); plain != tc.plain {
			t.Errorf("%s: plain %v, want %v: %s", tc.name, plain, tc.plain, chunk)
		}
	}
}

func plainOptions() []WriteOptions {
	return []WriteOptions{
		{Model: "public", ID: "ours", Created: 1, IncludeUsage: true},
		{Model: "m"},
		{Model: "public", StripReasoning: true, N: 2},
		{Model: "public", IncludeUsage: true, ContinuousUsage: true},
	}
}

// TestPlainChunkProperty checks that reading in one pass and parsing have the same result for any
// sequence of chunks.
func TestPlainChunkProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(of ...string) string { return rapid.SampledFrom(of).Draw(t, "part") }
		o := rapid.SampledFrom(plainOptions()).Draw(t, "options")
		o.N = rapid.IntRange(0, 2).Draw(t, "n")
		var short, long Stream
		short.Reset(&o)
		long.Reset(&o)
		for range rapid.IntRange(1, 8).Draw(t, "chunks") {
			choice := draw(``, `{`+draw(`"index":0,`, `"index":0,`, `"index":1,`, ``)+
				draw(`"delta":{`, `"delta":{`, `"delta": { `)+
				draw(``, ``, `"role":"assistant"`, `"role":null`, `"x":[1,{"a":"b"}]`)+
				draw(``, `,`)+
				draw(``, `"content":"a"`, `"content":"a"`, `"content":"b\n"`, `"content":""`, `"content":null`, `"content":"<th"`,
					`"content":" "`, `"reasoning":"r"`, `"tool_calls":null`, `"tool_calls":[{"index":0,"id":"i","function":{"name":"f","arguments":""}}]`)+
				`}`+draw(``, `,"finish_reason":null`, `,"finish_reason":"stop"`, `,"finish_reason":"length"`, `,"finish_reason":"eos"`)+
				draw(``, ``, `,"logprobs":null`, `,"logprobs":{"content":[]}`)+`}`)
			data := `{` + draw(`"id":"x"`, `"id":"x"`, `"id":"y"`, `"id":""`, `"id":null`) +
				draw(`,"object":"chat.completion.chunk"`, `,"object":"chat.completion.chunk"`, ``) +
				draw(`,"created":17`, `,"created":17`, `,"created":18`, `,"created":1.5`) +
				draw(`,"model":"m"`, `,"model":"m"`, `,"model":"public"`, ``) +
				draw(``, ``, `,"usage":null`, `,"system_fingerprint":"f"`) +
				`,"choices":[` + choice + `]` +
				draw(``, ``, `,"usage":null`, `,"usage":{"prompt_tokens":3,"completion_tokens":2}`,
					`,"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":1}}`,
					`,"usage":{"prompt_tokens":3,"completion_tokens":null}`, `,"timings":{"prompt_n":1,"predicted_n":2}`) + `}`
			if compareStreams(t, &short, &long, data) {
				return
			}
			if rapid.IntRange(0, 9).Draw(t, "engine") == 0 {
				short.PrepareForNextEngine()
				long.PrepareForNextEngine()
			}
		}
		got, gotErr := short.Finish(nil)
		want, wantErr := long.Finish(nil)
		if !bytes.Equal(got, want) || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("end: got %q, %v; want %q, %v", got, gotErr, want, wantErr)
		}
	})
}
