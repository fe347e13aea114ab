package endpoint

import (
	"strings"
	"testing"

	"penstock/translate"
)

// TestForwardedUsage checks the usage of an answer that is read completely, and of one that is relayed
// while it arrives. If the engine reports none, the texts of a completion are estimated. They are also
// estimated if llama.cpp reports the usage of the first of several choices.
func TestForwardedUsage(t *testing.T) {
	const (
		timings = `,"timings":{"predicted_n":1}`
		two     = `{"choices":[{"text":"12345678"},{"text":"123456789012"}],"usage":{"prompt_tokens":2,"completion_tokens":3}`
	)
	const logprobs = `"logprobs":{"tokens":["one","two"],"text":"not counted"}`
	for _, tt := range []struct {
		name, body string
		prompt     int // estimate
		prompts    int
		want       translate.Usage
	}{
		{"completion", `{"choices":[{"text":"12345678",` + logprobs + `,"finish_reason":"stop"},{"index":1,"text":"1\\n23"},{"text":null}],"text":"no choice"}`, 7, 1, translate.Usage{Prompt: 7, Completion: 4, Total: 11, Estimated: true}},
		{"reported", `{"choices":[{"text":"12345678"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`, 7, 1, translate.Usage{Prompt: 2, Completion: 1, Total: 3, Known: true}},
		{"only the prompt", `{"choices":[{"text":"12345678"}],"usage":{"prompt_tokens":2,"completion_tokens":0}}`, 7, 1, translate.Usage{Prompt: 2, Completion: 2, Total: 4, Known: true, Estimated: true}},
		{"absurd", `{"choices":[{"text":"12345678"}],"usage":{"prompt_tokens":9223372036854775807,"completion_tokens":1e400}}`, 7, 1, translate.Usage{Completion: 2, Total: 2, Known: true, Estimated: true}},
		{"llama.cpp, one choice", `{"choices":[{"text":"12345678"}],"usage":{"prompt_tokens":2,"completion_tokens":1}` + timings + "}", 7, 1, translate.Usage{Prompt: 2, Completion: 1, Total: 3, Known: true}},
		{"llama.cpp, choices", two + timings + "}", 700, 1, translate.Usage{Prompt: 2, Completion: 5, Total: 7, Known: true, Estimated: true, FirstChoiceOnly: true}},
		{"llama.cpp, prompts", two + timings + "}", 700, 2, translate.Usage{Prompt: 350, Completion: 5, Total: 355, Known: true, Estimated: true, FirstChoiceOnly: true}},
		{"llama.cpp, short prompts", strings.Replace(two, ":3}", ":5}", 1) + timings + "}", 5, 2, translate.Usage{Prompt: 2, Completion: 5, Total: 7, Known: true, FirstChoiceOnly: true}},
		{"another engine, prompts", two + "}", 700, 2, translate.Usage{Prompt: 2, Completion: 3, Total: 5, Known: true}},
		{"embeddings", `{"data":[{"embedding":[1],"text":"echo"}]}`, 7, 0, translate.Usage{Prompt: 7, Total: 7, Estimated: true}},
		{"not estimated", `{"text":"a transcript","choices":[{"text":"12345678"}]}`, noEstimate, 0, translate.Usage{}},
	} {
		f := &forwardedAnswer{estimate: tt.prompt, prompts: tt.prompts}
		if _, err := f.AppendAnswer(nil, []byte(tt.body), nil); err != nil || f.Usage() != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", tt.name, f.Usage(), err, tt.want)
		}
		for _, size := range []int{1, 3, len(tt.body)} {
			p := f.NewPassthrough(nil)
			for rest := tt.body; rest != ""; rest = rest[min(size, len(rest)):] {
				if _, err := p.Append(nil, []byte(rest[:min(size, len(rest))])); err != nil {
					t.Fatal(tt.name, err)
				}
			}
			if err := p.End(); err != nil || p.Usage() != tt.want {
				t.Errorf("%s in pieces of %d: got %+v, %v, want %+v", tt.name, size, p.Usage(), err, tt.want)
			}
		}
	}
}
