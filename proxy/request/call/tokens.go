package call

import (
	"penstock/translate"
	"penstock/upstreams"
)

type tokens struct {
	prompt      int
	output      int
	counted     int // prompt length reported by an engine that rejected the prompt; 0 if unknown
	promptBytes int // length of the prompt if it contains only text; otherwise 0
	usage       translate.Usage
}

// estimate estimates the token counts that the engine did not report. If the client disconnects
// after the call was sent to an engine, the client is charged for the prompt, which the engine has
// read. If the answer is not streamed, the client is also charged for the expected answer, because
// the edge cannot see how many tokens were generated.
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

func (t *tokens) learn(u *upstreams.Upstream) {
	if t.usage.Known && t.usage.Resumed == 0 && t.promptBytes > 0 && u != nil {
		u.Averages.LearnTokens(t.promptBytes, t.usage.Prompt)
	}
}
