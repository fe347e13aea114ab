package observe

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"
)

// RoutingChoice describes why a call's upstream was chosen, if there was more than one candidate.
type RoutingChoice struct {
	Reason    string
	Tokens    int
	Expected  int
	Estimates []UpstreamEstimate
}

// UpstreamEstimate is the estimate for one upstream.
type UpstreamEstimate struct {
	Upstream string `json:"upstream"`
	// Seconds is the estimated time until the answer's tenth token, or 0 if it is unknown.
	Seconds float64 `json:"seconds,omitempty"`
	Cached  int     `json:"cached_tokens"`
}

func (c *RoutingChoice) copyTo(to *RoutingChoice) {
	estimates := to.Estimates[:0]
	*to = *c
	estimates = append(estimates, c.Estimates...)
	to.Estimates = estimates
}

// expectedCached returns how many prompt tokens the engine was expected to have cached. The result
// is scaled to prompt, which is the engine's token count.
func (c *RoutingChoice) expectedCached(prompt int) int {
	if c.Tokens == 0 {
		return 0
	}
	return int(float64(prompt) * float64(c.Expected) / float64(c.Tokens))
}

// PromptCacheCounts counts prompt tokens of calls that could choose among engines.
type PromptCacheCounts struct {
	Prompt   uint64 `json:"prompt_tokens"`
	Cached   uint64 `json:"cached_tokens"`
	Expected uint64 `json:"expected_cached_tokens"` // tokens that engines were expected to have cached
}

// CachedShare returns the cached share of prompt tokens, from 0 to 1. If there are no prompts, it
// returns 0.
func (p PromptCacheCounts) CachedShare() float64 {
	return float64(p.Cached) / float64(max(1, p.Prompt))
}

// ExpectedShare returns the share of prompt tokens that engines were expected to have cached, from
// 0 to 1.
func (p PromptCacheCounts) ExpectedShare() float64 {
	return float64(p.Expected) / float64(max(1, p.Prompt))
}

// addCall adds the prompt of an ended call if the call could choose among engines.
func (p *PromptCacheCounts) addCall(r *Record) {
	if r.Choice == nil || r.TokensEstimated {
		return
	}
	p.Prompt += uint64(max(0, r.PromptTokens))
	p.Cached += uint64(max(0, r.CachedTokens))
	p.Expected += uint64(max(0, r.ExpectedCached))
}

func (p *PromptCacheCounts) merge(o *PromptCacheCounts) {
	p.Prompt, p.Cached, p.Expected = p.Prompt+o.Prompt, p.Cached+o.Cached, p.Expected+o.Expected
}

// AppendChoiceMetrics appends the metrics of calls that could choose among engines.
func (c *Calls) AppendChoiceMetrics(b *bytes.Buffer) {
	choices := c.series.choices.all()
	for _, k := range slices.SortedFunc(maps.Keys(choices), func(x, y choiceKey) int {
		return cmp.Or(cmp.Compare(x.model, y.model), cmp.Compare(x.reason, y.reason))
	}) {
		AppendSample(b, "penstock_choices_total", strconv.FormatInt(choices[k].Load(), 10), "model", k.model, "reason", k.reason)
	}
	pairs := c.series.histories.all()
	for _, k := range slices.SortedFunc(maps.Keys(pairs), func(x, y modelUpstreamKey) int {
		return cmp.Or(cmp.Compare(x.model, y.model), cmp.Compare(x.upstream, y.upstream))
	}) {
		h := pairs[k]
		h.mu.Lock()
		p := h.prompts
		h.mu.Unlock()
		if p.Prompt == 0 {
			continue
		}
		sample := func(kind string, n uint64) {
			AppendSample(b, "penstock_chosen_prompt_tokens_total", strconv.FormatUint(n, 10),
				"model", k.model, "upstream", k.upstream, "kind", kind)
		}
		sample("prompt", p.Prompt)
		sample("cached", p.Cached)
		sample("expected", p.Expected)
	}
}
