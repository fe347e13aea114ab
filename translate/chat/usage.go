package chat

import (
	"strconv"

	"penstock/translate/jsonx"
)

// maxTokens bounds a token count, so that sums of counts that an engine made up cannot overflow.
const maxTokens = 1 << 31

// Usage is the token counts of one answer in the sense of the chat dialect: Prompt includes Cached,
// and Completion includes Reasoning. Counts that an engine did not send are 0.
type Usage struct {
	Prompt, Completion, Total int
	Cached                    int // of Prompt, taken from the prefix cache
	Reasoning                 int // of Completion, not visible text

	// Known: the engine sent the counts, in `usage` or in llama.cpp's `timings`.
	Known bool
	// Estimated: all of it is our own estimate: of the completion one token a delta, or four bytes
	// of a whole one a token.
	Estimated bool
}

// plus returns the usage of two choices of one prompt.
func (u Usage) plus(o Usage) Usage {
	o.Prompt, o.Cached = max(u.Prompt, o.Prompt), max(u.Cached, o.Cached)
	o.Completion = min(u.Completion+o.Completion, maxTokens)
	o.Reasoning = min(u.Reasoning+o.Reasoning, maxTokens)
	o.Total = 0
	o.settle()
	return o
}

// estimate returns the usage when the engine sent none.
func estimate(tokens int) Usage {
	return Usage{Completion: tokens, Total: tokens, Estimated: true}
}

// of returns u; with our estimate of the prompt if u is an estimate.
func (u Usage) of(prompt int) Usage {
	if u.Estimated {
		u.Prompt, u.Total = prompt, prompt+u.Completion
	}
	return u
}

// readUsage reads a `usage` object. ok is false when it is none or has no counts.
func readUsage(v jsonx.Value) (u Usage, ok bool) {
	if !v.IsObject() {
		return Usage{}, false
	}
	for it := v.Iter(); it.Next(); {
		counted := false
		switch string(it.Key().Raw()) {
		case "prompt_tokens":
			u.Prompt, counted = readCount(it.Value())
		case "completion_tokens":
			u.Completion, counted = readCount(it.Value())
		case "total_tokens":
			u.Total = Tokens(it.Value())
		case "reasoning_tokens": // SGLang
			u.Reasoning = Tokens(it.Value())
		case "prompt_tokens_details":
			u.Cached = Tokens(it.Value().Get("cached_tokens"))
		case "completion_tokens_details":
			if n, ok := readCount(it.Value().Get("reasoning_tokens")); ok {
				u.Reasoning = n
			}
		}
		u.Known = u.Known || counted
	}
	if !u.Known {
		return Usage{}, false
	}
	u.settle()
	return u, true
}

// readTimings reads llama.cpp's `timings`, which its last chunk has even if no usage was asked for.
// Its counts are of one choice; prompt_n leaves out what came from the cache.
func readTimings(v jsonx.Value) (u Usage, ok bool) {
	if !v.IsObject() {
		return Usage{}, false
	}
	var hasPrompt bool
	u.Prompt, hasPrompt = readCount(v.Get("prompt_n"))
	u.Completion, u.Known = readCount(v.Get("predicted_n"))
	if !hasPrompt || !u.Known {
		return Usage{}, false
	}
	u.Cached = Tokens(v.Get("cache_n"))
	u.Prompt += u.Cached
	u.settle()
	return u, true
}

// settle makes the counts agree with each other.
func (u *Usage) settle() {
	u.Cached = min(u.Cached, u.Prompt)
	u.Reasoning = min(u.Reasoning, u.Completion)
	u.Total = max(u.Total, u.Prompt+u.Completion)
}

// readCount reads a count of an engine: bounded, and not negative.
func readCount(v jsonx.Value) (n int, ok bool) {
	i, ok := v.Int()
	if !ok || i < 0 {
		return 0, false
	}
	return int(min(i, maxTokens)), true
}

// Tokens reads a count of an engine, 0 for what is none.
func Tokens(v jsonx.Value) int {
	n, _ := readCount(v)
	return n
}

// appendUsage appends u as a `usage` object.
func appendUsage(dst []byte, u Usage) []byte {
	dst = append(dst, `{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Prompt), 10)
	dst = append(dst, `,"completion_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Completion), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, int64(u.Total), 10)
	if u.Cached > 0 {
		dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Cached), 10)
		dst = append(dst, '}')
	}
	if u.Reasoning > 0 {
		dst = append(dst, `,"completion_tokens_details":{"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, int64(u.Reasoning), 10)
		dst = append(dst, '}')
	}
	return append(dst, '}')
}
