package answer

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"penstock/translate"
	"penstock/translate/sse"
)

// TestMarkup checks that every reader detects markup only at the start of a text, however the text
// is split and escaped.
func TestMarkup(t *testing.T) {
	texts := map[string]string{
		"\n\n<tool_call>\n{\"name\": \"f\"}": "<tool_call>", "</think>\n\nHi": "</think>", "<function=f>": "<function=", "<|channel|>analysis": "<|channel|>",
		"<｜tool▁calls▁begin｜>": "<｜tool▁calls▁begin｜>", "[TOOL_CALLS][{}]": "[TOOL_CALLS]", "<tool_calls>": "<tool_calls>",
		"Hi <tool_call>": "", "<tool_cal": "", "<b>x</b>": "", "<": "", " \n": "", "": "", "[1] see <think>": "", "< think>": "",
	}
	var names []string
	for text := range texts {
		names = append(names, text)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom(names).Draw(t, "text")
		var (
			s      Stream
			source Reader
			a      Assembler
			c      ChatCompletion
		)
		s.Reset(&WriteOptions{Model: "m"})
		source.Reset("id", 0)
		say := func(delta string) {
			ev := sse.Event{Data: []byte(`{"id":"c","created":1,"model":"m","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `}]}`)}
			if _, err := s.Append(nil, ev); err != nil {
				t.Fatal(err)
			}
			if _, err := source.Read(ev); err != nil {
				t.Fatal(err)
			}
			if err := a.AddEvent(ev); err != nil {
				t.Fatal(err)
			}
		}
		say(`{"role":"assistant","content":""}`)
		for range rapid.IntRange(0, 3).Draw(t, "reasoning") {
			say(`{"reasoning":"<tool_call>"}`)
		}
		for rest := []rune(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "piece")
			piece, _ := json.Marshal(string(rest[:n])) // Marshal escapes <, as Ollama does
			if rapid.Bool().Draw(t, "plain") {
				piece = appendQuoted(nil, []byte(string(rest[:n])))
				if !json.Valid(piece) {
					piece, _ = json.Marshal(string(rest[:n]))
				}
			}
			say(`{"content":` + string(piece) + `}`)
			rest = rest[n:]
		}
		say(`{"content":" and more"}`)
		say(`{"content":" of it"}`)
		if err := a.AddEvent(sse.Event{Data: []byte(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)}); err != nil {
			t.Fatal(err)
		}
		whole, err := a.AppendCompletion(nil, &WriteOptions{Model: "m"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Parse(whole); err != nil {
			t.Fatal(err)
		}
		for reader, got := range map[string]translate.Markup{"Stream": s.UnparsedMarkup(), "Source": source.UnparsedMarkup(), "Completion": c.Markup()} {
			if got.String() != texts[text] {
				t.Errorf("%s of %q found %q, want %q", reader, text, got, texts[text])
			}
		}
	})
}
