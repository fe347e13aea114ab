package forward

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// readUsage reads the token counts of an answer or an event, in either spelling: prompt and
// completion, as completions, embeddings and rerank have it, or input and output, as images and
// audio have it. A duration is no count.
func readUsage(v jsonx.Value) (u translate.Usage, ok bool) {
	if !v.IsObject() {
		return u, false
	}
	total := -1
	for it := v.Iter(); it.Next(); {
		n, is := it.Value().Int()
		count := int(min(max(n, 0), maxTokens))
		switch string(it.Key().Raw()) {
		case "prompt_tokens", "input_tokens":
			if is {
				u.Prompt, u.Known = count, true
			}
		case "completion_tokens", "output_tokens":
			if is {
				u.Completion, u.Known = count, true
			}
		case "total_tokens":
			if is {
				total = count
			}
		case "prompt_tokens_details":
			if n, ok := it.Value().Get("cached_tokens").Int(); ok {
				u.Cached = int(min(max(n, 0), maxTokens))
			}
		}
	}
	if !u.Known && total >= 0 { // rerank, mostly
		u.Prompt, u.Known = total, true
	}
	u.Total = max(total, u.Prompt+u.Completion)
	u.Cached = min(u.Cached, u.Prompt)
	return u, u.Known
}

// maxTokens bounds a count, so that sums of counts that an engine made up cannot overflow.
const maxTokens = 1 << 31
