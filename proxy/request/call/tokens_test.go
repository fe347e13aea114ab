package call

import (
	"testing"

	"penstock/translate"
)

// TestEstimateUsage checks that each count that the engine did not report is estimated, and that such
// a usage is marked.
func TestEstimateUsage(t *testing.T) {
	for _, tt := range []struct {
		name                string
		engine              translate.Usage
		streamed, abandoned bool
		want                translate.Usage
	}{
		{"reported", translate.Usage{Known: true, Prompt: 7, Cached: 5, Completion: 3, Total: 10}, true, false, translate.Usage{Known: true, Prompt: 7, Cached: 5, Completion: 3, Total: 10}},
		{"only the prompt", translate.Usage{Known: true, Prompt: 7, Total: 7, TextTokens: 75}, false, false, translate.Usage{Known: true, Prompt: 7, Total: 82, Completion: 75, TextTokens: 75, Estimated: true}},
		{"only the completion", translate.Usage{Known: true, Completion: 3, Total: 3}, true, false, translate.Usage{Known: true, Prompt: 20, Completion: 3, Total: 23, Estimated: true}},
		{"zeros", translate.Usage{Known: true, TextTokens: 75}, true, false, translate.Usage{Known: true, Prompt: 20, Completion: 75, Total: 95, TextTokens: 75, Estimated: true}},
		{"no text", translate.Usage{Known: true, Prompt: 7, Total: 7}, true, false, translate.Usage{Known: true, Prompt: 7, Total: 7}},
		{"nothing", translate.Usage{}, true, false, translate.Usage{}},
		{"estimate", translate.Usage{Estimated: true, Completion: 3}, true, false, translate.Usage{Estimated: true, Prompt: 20, Completion: 3, Total: 23}},
		{"abandoned stream", translate.Usage{}, true, true, translate.Usage{Estimated: true, Prompt: 20, Total: 20}},
		{"abandoned answer", translate.Usage{}, false, true, translate.Usage{Estimated: true, Prompt: 20, Completion: 50, Total: 70}},
	} {
		c := callTokens{estimatedPrompt: 20, expectedOutput: 50, usage: tt.engine}
		if c.estimateUsage(tt.streamed, tt.abandoned); c.usage != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, c.usage, tt.want)
		}
	}
}
