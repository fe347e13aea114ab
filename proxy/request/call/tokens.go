package call

import (
	"penstock/translate"
	"penstock/upstreams"
)

type callTokens struct {
	estimatedPrompt int
	expectedOutput  int
	engineCount     int // prompt length reported by an engine that rejected the prompt; 0 if unknown
	promptBytes     int // length of the prompt if it contains only text; otherwise 0
	usage           translate.Usage
}

// estimateUsage estimates the token counts that the engine did not report. If the client
// disconnects while an engine is working, the client is charged for the prompt, which the engine has
// read. If the answer is not streamed, the client is also charged for the expected
// answer, because the edge cannot see how many tokens were generated.
func (t *callTokens) estimateUsage(streamed, leftEngine bool) {
	u := &t.usage
	switch {
	case u.Known:
		t.replaceZeros()
		return
	case u.Estimated:
	case leftEngine:
		u.Estimated = true
		if !streamed {
			u.Completion = t.expectedOutput
		}
	default:
		return
	}
	u.Prompt = max(u.Prompt, t.estimatedPrompt)
	u.Total = u.Prompt + u.Completion
}

// replaceZeros estimates a count that is 0, because an engine's usage may have only the other one.
func (t *callTokens) replaceZeros() {
	u := &t.usage
	if u.Prompt == 0 && t.estimatedPrompt > 0 {
		u.Prompt, u.Estimated = t.estimatedPrompt, true
	}
	if u.Completion == 0 && u.TextTokens > 0 {
		u.Completion, u.Estimated = u.TextTokens, true
	}
	u.Reconcile()
}

func (t *callTokens) learnBytesPerToken(u *upstreams.Upstream) {
	if t.usage.Known && t.usage.Resumed == 0 && t.promptBytes > 0 && u != nil {
		u.Averages.UpdateBytesPerToken(t.promptBytes, t.usage.Prompt)
	}
}
