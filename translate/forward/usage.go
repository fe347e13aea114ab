package forward

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

// usageTotal is the token counts of a stream.
type usageTotal struct {
	total   translate.Usage           // of everything
	prompts int                       // that share the choices evenly; 0: one
	of      map[int64]translate.Usage // by choice, of an engine that counts each by itself
}

// note keeps the counts of an event. Those in an event of one choice are of that choice alone:
// llama.cpp has them at the end of each, and vLLM on request in every one, before those of
// everything.
func (t *usageTotal) note(u translate.Usage, inEvent jsonx.Value, choices int) {
	if choices < 2 || inEvent.Len() != 1 {
		t.total = u
		return
	}
	index, _ := inEvent.Index(0).Get("index").Int()
	if t.of == nil {
		t.of = map[int64]translate.Usage{}
	}
	if index >= 0 && index < int64(choices) {
		t.of[index] = u
	}
}

// sum adds up what the engine says of each choice. The choices of one prompt follow each
// other, and each of them has the prompt's tokens.
func (t *usageTotal) sum(choices int) translate.Usage {
	sum := translate.Usage{Known: true}
	prompts := make([]translate.Usage, max(t.prompts, 1))
	perPrompt := max(1, choices/len(prompts))
	for index, u := range t.of {
		p := &prompts[min(int(index)/perPrompt, len(prompts)-1)]
		p.Prompt, p.Cached = max(p.Prompt, u.Prompt), max(p.Cached, u.Cached)
		sum.Completion = min(sum.Completion+u.Completion, maxTokens)
	}
	for _, p := range prompts {
		sum.Prompt, sum.Cached = min(sum.Prompt+p.Prompt, maxTokens), min(sum.Cached+p.Cached, maxTokens)
	}
	sum.Total = sum.Prompt + sum.Completion
	return sum
}

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
