package call

import (
	"penstock/translate"
	"penstock/upstreams"
)

// tokens holds a call's token counts: estimated, counted by engines, and used.
type tokens struct {
	prompt      int // estimated
	output      int // expected
	counted     int // the prompt's tokens, counted by an engine whose context they exceed; 0: unknown
	promptBytes int // the prompt's bytes if it is only text, otherwise 0
	usage       translate.Usage
}

// estimate fills in what no engine has counted. A client that leaves after the call was sent to an
// engine is charged as well. It pays for the prompt, which the engine has read. If the answer is
// not streamed, it also pays for the expected tokens, because the edge does not see them one by
// one.
func (t *tokens) estimate(streamed, leftEngine bool) {
	u := &t.usage
	switch {
	case u.Known:
		return
	case u.Estimated:
	case leftEngine:
		u.Estimated = true
		if !streamed {
			u.Completion = t.output
		}
	default:
		return
	}
	u.Prompt = max(u.Prompt, t.prompt)
	u.Total = u.Prompt + u.Completion
}

// learn updates an engine's average of bytes per token with the engine's count of the prompt.
func (t *tokens) learn(u *upstreams.Upstream) {
	if t.usage.Known && t.usage.Resumed == 0 && t.promptBytes > 0 && u != nil {
		u.Averages.LearnTokens(t.promptBytes, t.usage.Prompt)
	}
}
