package answer

import (
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// readUsage reads a `usage` object. ok is false if v is not an object, or has no counts.
func readUsage(v jsonx.Value) (u translate.Usage, ok bool) {
	if !v.IsObject() {
		return translate.Usage{}, false
	}
	for it := v.Iter(); it.Next(); {
		counted := false
		switch string(it.Key().Raw()) {
		case "prompt_tokens":
			u.Prompt, counted = translate.ReadCount(it.Value())
		case "completion_tokens":
			u.Completion, counted = translate.ReadCount(it.Value())
		case "total_tokens":
			u.Total = translate.CountOrZero(it.Value())
		case "reasoning_tokens": // SGLang
			u.Reasoning = translate.CountOrZero(it.Value())
		case "prompt_tokens_details":
			u.Cached = translate.CountOrZero(it.Value().Get("cached_tokens"))
		case "completion_tokens_details":
			if n, ok := translate.ReadCount(it.Value().Get("reasoning_tokens")); ok {
				u.Reasoning = n
			}
		}
		u.Known = u.Known || counted
	}
	if !u.Known {
		return translate.Usage{}, false
	}
	u.Reconcile()
	return u, true
}

// readTimings reads llama.cpp's `timings`. The last chunk contains timings even if usage was not
// requested. They cover one choice. prompt_n does not include cached tokens.
func readTimings(v jsonx.Value) (u translate.Usage, ok bool) {
	if !v.IsObject() {
		return translate.Usage{}, false
	}
	var hasPrompt bool
	u.Prompt, hasPrompt = translate.ReadCount(v.Get("prompt_n"))
	u.Completion, u.Known = translate.ReadCount(v.Get("predicted_n"))
	if !hasPrompt || !u.Known {
		return translate.Usage{}, false
	}
	u.Cached = translate.CountOrZero(v.Get("cache_n"))
	u.Prompt += u.Cached
	u.Reconcile()
	return u, true
}

func appendUsage(dst []byte, u translate.Usage) []byte {
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
	return append(u.AppendResumeCount(dst), '}')
}
