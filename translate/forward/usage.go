package forward

import (
	"penstock/translate"
	"penstock/translate/jsonx"
)

type usageTotal struct {
	total    translate.Usage           // the counts for all choices
	prompts  int                       // all prompts have the same number of choices; 0 means 1
	byChoice map[int64]translate.Usage // by choice, if the engine counts each choice separately
}

// recordUsage records the counts of an event. If the event has one choice, its counts belong to
// that choice. llama.cpp sends counts at the end of each choice. If the client requests counts in
// every event, vLLM sends them, followed by the counts for all choices.
func (t *usageTotal) recordUsage(u translate.Usage, inEvent jsonx.Value, choices int) {
	if choices < 2 || inEvent.Len() != 1 {
		t.total = u
		return
	}
	index, _ := inEvent.Index(0).Get("index").Int()
	if t.byChoice == nil {
		t.byChoice = map[int64]translate.Usage{}
	}
	if index >= 0 && index < int64(choices) {
		t.byChoice[index] = u
	}
}

// sum returns the counts for all choices. The choices of one prompt are consecutive, and the counts
// of each choice include the prompt's tokens.
func (t *usageTotal) sum(choices int) translate.Usage {
	sum := translate.Usage{Known: true}
	prompts := make([]translate.Usage, max(t.prompts, 1))
	perPrompt := max(1, choices/len(prompts))
	for index, u := range t.byChoice {
		p := &prompts[min(int(index)/perPrompt, len(prompts)-1)]
		p.Prompt, p.Cached = max(p.Prompt, u.Prompt), max(p.Cached, u.Cached)
		sum.Completion = min(sum.Completion+u.Completion, translate.MaxCount)
	}
	for _, p := range prompts {
		sum.Prompt, sum.Cached = min(sum.Prompt+p.Prompt, translate.MaxCount), min(sum.Cached+p.Cached, translate.MaxCount)
	}
	sum.Total = sum.Prompt + sum.Completion
	return sum
}

// readUsage reads a usage object. In completions, embeddings and rerank, the counts are named
// prompt_tokens and completion_tokens. In images and audio, they are named input_tokens and
// output_tokens. A duration is not a count.
func readUsage(v jsonx.Value) (u translate.Usage, ok bool) {
	if !v.IsObject() {
		return u, false
	}
	total := -1
	for it := v.Iter(); it.Next(); {
		count, is := translate.ReadCount(it.Value())
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
			u.Cached = translate.CountOrZero(it.Value().Get("cached_tokens"))
		}
	}
	if !u.Known && total >= 0 { // mainly for rerank
		u.Prompt, u.Known = total, true
	}
	u.Total = max(total, u.Prompt+u.Completion)
	u.Cached = min(u.Cached, u.Prompt)
	return u, u.Known
}

// completionTexts describes the texts of a completion.
type completionTexts struct {
	count, bytes int
	// Whether the answer has llama.cpp's `timings`. If llama.cpp does not stream, its counts cover
	// only the first choice.
	hasTimings bool
}

// usageOrEstimate returns the engine's counts. If they do not cover the texts, it estimates the
// number of completion tokens.
func (t *completionTexts) usageOrEstimate(u translate.Usage) translate.Usage {
	tokens := translate.TokensInBytes(t.bytes)
	u.FirstChoiceOnly = u.Known && t.hasTimings && t.count > 1
	switch {
	case !u.Known && tokens > 0:
		return translate.EstimateUsage(tokens)
	case u.Known && (u.Completion == 0 || u.FirstChoiceOnly) && tokens > u.Completion:
		u.Completion, u.Estimated = tokens, true
		u.Reconcile()
	}
	return u
}
