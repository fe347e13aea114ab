package answer

import (
	"strings"
	"testing"

	"penstock/translate/sse"
)

// TestAppendEvents checks the events for whole answers that an engine sends instead of a stream.
func TestAppendEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, body, want string }{
		{
			"chat",
			"{\n \"id\":\"i\",\"object\":\"chat.completion\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"a\\nb\"},\"finish_reason\":\"length\"}],\r\n\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}",
			`{  "id":"i","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":"a\nb"},"finish_reason":"length"}],  "usage":{"prompt_tokens":1,"completion_tokens":2}}`,
		},
		{
			"tool calls without indexes, ids and an end",
			`{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}},{"index":0,"function":{"name":"g","arguments":"{}"}}]}}]}`,
			`{"choices":[{"delta":{"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"},"index":0},{"index":1,"function":{"name":"g","arguments":"{}"}}]},"index":0,"finish_reason":"tool_calls"}]}`,
		},
		{
			"legacy", `{"object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":"stop"},{"text":"b"}]}`,
			`{"object":"text_completion","choices":[{"text":"a","index":0,"finish_reason":"stop"},{"text":"b","index":1,"finish_reason":"stop"}]}`,
		},
		{"a delta and a message", `{"choices":[{"index":0,"delta":null,"message":{"content":"a"},"finish_reason":"stop"}]}`, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`},
		{"broken off", `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":null}]}`, `{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}`},
	} {
		got, err := AppendAsStream(nil, []byte(c.body))
		if want := "data: " + c.want + "\n\ndata: [DONE]\n\n"; err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, want)
		}
	}
	for _, body := range []string{"", "<html>", "[]", "{}", `{"choices":[]}`, `{"choices":null}`, `{"choices":[1]}`, `{"error":{"message":"no"},"choices":[{"message":{"content":"a"}}]}`, `{"choices":[{"message":{"content":"a"},"finish_reason":"abort"}]}`} {
		if got, err := AppendAsStream(nil, []byte(body)); err == nil || len(got) > 0 {
			t.Errorf("AppendAsStream of %s = %s, %v, want an error", body, got, err)
		}
	}
}

// TestAppendEvents_Stream checks that a chat client receives a complete stream from a whole answer.
func TestAppendEvents_Stream(t *testing.T) {
	t.Parallel()
	events, err := AppendAsStream(nil, []byte(`{"id":"i","created":5,"choices":[{"message":{"content":"a","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`))
	if err != nil {
		t.Fatal(err)
	}
	var s Stream
	s.Reset(&WriteOptions{Model: "m", ID: "id", IncludeUsage: true})
	var out []byte
	r := sse.NewReader(strings.NewReader(string(events)), 1<<20)
	for ev, err := r.NextEvent(); err == nil; ev, err = r.NextEvent() {
		if out, err = s.Append(out, ev); err != nil {
			t.Fatal(err)
		}
	}
	if out, err = s.Finish(out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{`"delta":{"content":"a"`, `"finish_reason":"tool_calls"`, `"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2`, "data: [DONE]", `"model":"m"`} {
		if !strings.Contains(string(out), part) {
			t.Errorf("no %s in %s", part, out)
		}
	}
}
