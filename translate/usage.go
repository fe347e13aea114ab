package translate

import (
	"strconv"

	"penstock/translate/jsonx"
)

// MaxCount is the highest sum of token counts. It prevents sums from overflowing.
const MaxCount = 1 << 31

// Usage contains the token counts of one answer as the chat dialect defines them. Prompt includes
// Cached, and Completion includes Reasoning.
type Usage struct {
	Prompt, Completion, Total int
	Cached                    int // prompt tokens that came from the prefix cache
	Reasoning                 int // completion tokens that are not visible text

	Finish FinishReason // how the answer's first choice ended
	// CutToolCalls is true if tool calls were omitted because the request allows only one.
	CutToolCalls bool

	// Resumed counts how often another engine continued the answer. ResumedPrompt is the number of
	// tokens that these engines had to read again. The other counts do not include these tokens.
	Resumed, ResumedPrompt int

	// FirstChoiceOnly is true if the engine has counted only the first of several choices, and its
	// prompt.
	FirstChoiceOnly bool

	// Known is true if the engine sent the counts, in `usage` or in llama.cpp's `timings`.
	Known bool
	// TextTokens is the estimated number of tokens in the answer, if the engine's counts say that it
	// has none. Otherwise it is 0.
	TextTokens int
	// Estimated is true if a count is the edge's estimate. The completion is estimated from the
	// bytes of the answer (see TokensInBytes). In a stream, each delta is at least one token.
	Estimated bool
	// PartlyEstimated is true if Completion includes an estimate for text that arrived after the
	// engine's counts.
	PartlyEstimated bool
}

// FinishReason says how a choice ended.
type FinishReason uint8

// The values of Finish. An unknown finish_reason counts as FinishStop, unless it reports a failure.
const (
	FinishNone FinishReason = iota // the choice has not ended
	FinishStop
	FinishLength
	FinishToolCalls
	FinishContentFilter
)

// String returns the finish_reason of the chat dialect.
func (f FinishReason) String() string {
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

// ContinueWith returns the usage of an answer that one engine started, with usage u, and another
// engine continued, with usage next. The prompt is counted once.
func (u Usage) ContinueWith(next Usage) Usage {
	u.ResumedPrompt = min(u.ResumedPrompt+next.Prompt, MaxCount)
	if !u.Known {
		u.Prompt, u.Cached = max(next.Prompt-u.Completion, 0), 0
	}
	u.Completion = min(u.Completion+next.Completion, MaxCount)
	u.Reasoning = min(u.Reasoning+next.Reasoning, MaxCount)
	u.Known, u.Estimated, u.PartlyEstimated, u.Total = true, false, false, 0
	u.Reconcile()
	return u
}

// AppendResumeCount appends a member with the number of times another engine continued the answer.
func (u Usage) AppendResumeCount(dst []byte) []byte {
	if u.Resumed == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, `,"penstock_resumed":`...), int64(u.Resumed), 10)
}

// TokensInBytes estimates the tokens in n bytes of an answer.
func TokensInBytes(n int) int { return (n + 3) / 4 }

// EstimateUsage returns the usage of an answer for which the engine sent no counts.
func EstimateUsage(tokens int) Usage {
	return Usage{Completion: tokens, Total: tokens, Estimated: true}
}

// WithPrompt returns u. If u is an estimate, its prompt is set to the given estimate.
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

// ReadCount reads a token count. An absurdly high count is 0, because the engine has not counted.
func ReadCount(v jsonx.Value) (n int, ok bool) {
	i, ok := v.Int()
	if !ok || i < 0 {
		return 0, false
	}
	if i >= MaxCount {
		i = 0
	}
	return int(i), true
}

// CountOrZero is ReadCount, but returns 0 if v is not a count.
func CountOrZero(v jsonx.Value) int {
	n, _ := ReadCount(v)
	return n
}
