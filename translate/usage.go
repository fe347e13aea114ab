package translate

import (
	"strconv"

	"penstock/translate/jsonx"
)

// MaxCount is the highest token count that is accepted. It keeps sums from overflowing if an engine
// makes up counts.
const MaxCount = 1 << 31

// Usage holds the token counts of one answer as the chat dialect defines them: Prompt includes
// Cached, and Completion includes Reasoning. Counts that an engine did not send are 0.
type Usage struct {
	Prompt, Completion, Total int
	Cached                    int // how many of Prompt came from the prefix cache
	Reasoning                 int // how many of Completion are not visible text

	Finish Finish // how the answer ended; for several choices, how the first one ended
	// CutToolCalls is true if tool calls were omitted from the answer because the request allows
	// only one.
	CutToolCalls bool

	// Resumed is how often another engine continued the answer. ResumedPrompt is the number of
	// tokens that those engines had to read again: the prompt and the partial answer. Neither is
	// included in the other counts.
	Resumed, ResumedPrompt int

	// Known is true if the engine sent the counts, in `usage` or in llama.cpp's `timings`.
	Known bool
	// Estimated is true if all counts are the edge's own estimate: one token for each delta, or one
	// token for four bytes of a whole completion.
	Estimated bool
}

// Finish is how a choice ended.
type Finish uint8

// The ways a choice ends. An engine's unknown word counts as FinishStop, unless it means a failure.
const (
	FinishNone Finish = iota // the choice has not ended
	FinishStop
	FinishLength
	FinishToolCalls
	FinishContentFilter
)

// String returns the chat dialect's word.
func (f Finish) String() string {
	return [...]string{"", "stop", "length", "tool_calls", "content_filter"}[f]
}

// Plus returns the combined usage of two choices for one prompt.
func (u Usage) Plus(o Usage) Usage {
	o.Prompt, o.Cached = max(u.Prompt, o.Prompt), max(u.Cached, o.Cached)
	o.Completion = min(u.Completion+o.Completion, MaxCount)
	o.Reasoning = min(u.Reasoning+o.Reasoning, MaxCount)
	o.Total = 0
	o.Reconcile()
	return o
}

// GoOn returns the usage of an answer that one engine started, with usage u, and another one
// continued, with usage next. The prompt counts once, and the completion is the sum of both.
func (u Usage) GoOn(next Usage) Usage {
	u.ResumedPrompt = min(u.ResumedPrompt+next.Prompt, MaxCount)
	if !u.Known {
		u.Prompt, u.Cached = max(next.Prompt-u.Completion, 0), 0
	}
	u.Completion = min(u.Completion+next.Completion, MaxCount)
	u.Reasoning = min(u.Reasoning+next.Reasoning, MaxCount)
	u.Known, u.Estimated, u.Total = true, false, 0
	u.Reconcile()
	return u
}

// AppendResumed appends the member of an answer's usage that says how often another engine
// continued the answer.
func (u Usage) AppendResumed(dst []byte) []byte {
	if u.Resumed == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, `,"penstock_resumed":`...), int64(u.Resumed), 10)
}

// EstimatedUsage returns the usage for an answer whose engine sent no counts.
func EstimatedUsage(tokens int) Usage {
	return Usage{Completion: tokens, Total: tokens, Estimated: true}
}

// WithPrompt returns u. If u is an estimate, WithPrompt adds the estimate of the prompt.
func (u Usage) WithPrompt(prompt int) Usage {
	if u.Estimated {
		u.Prompt, u.Total = prompt, prompt+u.Completion
	}
	return u
}

// Reconcile makes the counts consistent.
func (u *Usage) Reconcile() {
	u.Cached = min(u.Cached, u.Prompt)
	u.Reasoning = min(u.Reasoning, u.Completion)
	u.Total = max(u.Total, u.Prompt+u.Completion)
}

// ReadCount reads a count from an engine. The count is not negative and at most MaxCount.
func ReadCount(v jsonx.Value) (n int, ok bool) {
	i, ok := v.Int()
	if !ok || i < 0 {
		return 0, false
	}
	return int(min(i, MaxCount)), true
}

// Count reads a count from an engine. It returns 0 if v is not a count.
func Count(v jsonx.Value) int {
	n, _ := ReadCount(v)
	return n
}
