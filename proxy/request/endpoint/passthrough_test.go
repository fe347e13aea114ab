package endpoint

import (
	"testing"

	"penstock/translate"
)

// TestForwardedUsage checks the usage of an answer that is read completely, and of one that is relayed
// while it arrives. If the engine reports none, the texts of a completion are estimated.
func TestForwardedUsage(t *testing.T) {
	const logprobs = `"logprobs":{"tokens":["one","two"],"text":"not counted"}`
	for _, tt := range []struct {
		name, body string
		prompt     int // estimate
		want       translate.Usage
	}{
		{"completion", `{"choices":[{"text":"12345678",` + logprobs + `,"finish_reason":"stop"},{"index":1,"text":"1\\n23"},{"text":null}],"text":"no choice"}`, 7, translate.Usage{Prompt: 7, Completion: 4, Total: 11, Estimated: true}},
		{"reported", `{"choices":[{"text":"12345678"}],"usage":{"prompt_tokens":2,"completion_tokens":1}}`, 7, translate.Usage{Prompt: 2, Completion: 1, Total: 3, Known: true}},
		{"embeddings", `{"data":[{"embedding":[1],"text":"echo"}]}`, 7, translate.Usage{Prompt: 7, Total: 7, Estimated: true}},
		{"not estimated", `{"text":"a transcript","choices":[{"text":"12345678"}]}`, noEstimate, translate.Usage{}},
	} {
		f := &forwardedAnswer{estimate: tt.prompt}
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
