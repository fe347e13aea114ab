package call

import (
	"penstock/translate"
	"penstock/upstreams"
)

type tokens struct {
	prompt      int
	output      int
	counted     int // prompt length that an engine reported when it refused the prompt; 0: unknown
	promptBytes int // length of a prompt that contains only text, otherwise 0
	usage       translate.Usage
}

// estimate estimates the token counts that the engine has not reported. If the client disconnects
// after the call was sent to an engine, it is charged for the prompt, which the engine has read. If
// the answer is not streamed, the client is charged for the expected answer as well, because the
// edge does not see its tokens one by one.
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
