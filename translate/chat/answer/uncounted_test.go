package answer

import (
	"testing"

	"penstock/translate/sse"
)

// TestUncountedText checks that the tokens of an answer are estimated if the engine's usage says that
// it has none. The client still gets the engine's numbers.
func TestUncountedText(t *testing.T) {
	const text, none = `"twelve bytes"`, `""`
	for _, tt := range []struct {
		content, usage string
		completion     int
		whole, stream  int // estimates
	}{
		{text, `{"prompt_tokens":7,"completion_tokens":3}`, 3, 0, 0},
		{text, `{"prompt_tokens":7,"completion_tokens":0}`, 0, 4, 3},
		{text, `{"prompt_tokens":7}`, 0, 4, 3},
		{text, `{"prompt_tokens":7,"completion_tokens":"3"}`, 0, 4, 3},
		{text, `{"prompt_tokens":7,"completion_tokens":-3}`, 0, 4, 3},
		{text, `{"prompt_tokens":7,"completion_tokens":9223372036854775807}`, 0, 4, 3},
		{text, `{"prompt_tokens":7,"completion_tokens":99999999999999999999}`, 0, 4, 3},
		{none, `{"prompt_tokens":7,"completion_tokens":0}`, 0, 0, 0},
	} {
		options := &WriteOptions{ID: "i", Model: "m", N: 1, IncludeUsage: true}
		body := `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":` +
			tt.content + `},"finish_reason":"stop"}],"usage":` + tt.usage + `}`
		var c ChatCompletion
		if err := c.Parse([]byte(body)); err != nil {
			t.Fatal(err)
		}
		if u := c.Usage(); u.Prompt != 7 || u.Completion != tt.completion || u.TextTokens != tt.whole || u.Estimated {
			t.Errorf("%s, %s: usage %+v, want %d tokens of text", tt.content, tt.usage, u, tt.whole)
		}
		if _, facts, ok := AppendSimpleAnswer(nil, []byte(body), options); ok && facts.Usage != c.Usage() {
			t.Errorf("%s, %s: %+v in one pass, %+v else", tt.content, tt.usage, facts.Usage, c.Usage())
		}
		var s Stream
		s.Reset(options)
		for _, event := range []string{
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":` + tt.content + `},"finish_reason":null}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":` + tt.usage + `}`,
		} {
			if _, err := s.Append(nil, sse.Event{Data: []byte(event)}); err != nil {
				t.Fatal(err)
			}
		}
		if u := s.Usage(); u.Prompt != 7 || u.Completion != tt.completion || u.TextTokens != tt.stream || u.Estimated {
			t.Errorf("%s, %s: usage of the stream %+v, want %d tokens of text", tt.content, tt.usage, u, tt.stream)
		}
	}
}
