package call

import (
	"slices"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Agents request as many tokens as their provider's models allow, even if the engine's context is
// small. The edge therefore lowers the token limit of a request so that the prompt and the answer
// fit into the engine's context. The edge can only estimate the length of the prompt. An engine
// that rejects the sum of the prompt and the limit reports how many tokens the prompt has. The edge
// then sends a changed request to the same engine (request_change.go), or the same request to an
// engine with a longer context.

// lowerTokenLimit lowers the token limit of the request to what fits into the context of a target.
func (c *Call) lowerTokenLimit(t *routing.Target) {
	if m := c.config.model; !m.Rules.Strict {
		attempt.LowerTokenLimit(m, c.request.AnswerTokenLimit(), c.promptTokens, t)
	}
}

// promptTokens returns the length of the prompt in tokens. This is the engine's count if it is
// known, otherwise an estimate. If the request has more than one prompt, the longest counts.
func (c *Call) promptTokens() int {
	if c.tokens.engineCount > 0 {
		return c.tokens.engineCount
	}
	return c.request.AnswerTokenLimit().PromptTokens(c.config.model.Route.BytesPerToken(), c.tokens.estimatedPrompt)
}

// countedPromptTokens returns the length of a prompt that an engine counted before it rejected the
// request. It returns 0 if the failure does not contain the length.
func countedPromptTokens(f *failure.Failure) int {
	if o := f.API.Overflow; f.API.Code == apierr.CodeContextLength && o.HasSizes() && !o.Least {
		return o.Prompt
	}
	return 0
}

// contextComparison compares the context lengths of a model's targets after a prompt did not fit
// into the context of one of them.
type contextComparison struct {
	model        *snapshot.Model
	limit        endpoint.TokenLimit
	promptTokens int             // length of the prompt in tokens
	rejectedBy   *routing.Target // target that rejected the prompt
	tiers        routing.TierSet // the tiers that the key may use
}

func (c *Call) newContextComparison() contextComparison {
	return contextComparison{c.config.model, c.request.AnswerTokenLimit(), c.promptTokens(), c.attempt.Target(), c.keyTiers()}
}

func (x *contextComparison) contextLength(t *routing.Target) int {
	return attempt.ContextLength(x.model, x.limit, t)
}

// minAnswerTokens returns how many tokens must remain after the prompt if the call is sent to
// another engine.
func (x *contextComparison) minAnswerTokens() int {
	if limit := x.limit.TokenLimit(); limit >= 0 {
		return min(chat.MinAnswerTokens, limit)
	}
	return chat.MinAnswerTokens
}

// isLongerAndFits reports whether a target's context is longer than that of the target that
// rejected the prompt, and long enough for the call.
func (x *contextComparison) isLongerAndFits(t *routing.Target) bool {
	n := x.contextLength(t)
	return n > x.contextLength(x.rejectedBy) && n >= x.promptTokens+x.minAnswerTokens()
}

func (x *contextComparison) isTargetAvailable(t *routing.Target) bool {
	return t.Upstream.State() == upstreams.StateUp && t.IsOpenToTiers(x.tiers)
}

func (x *contextComparison) fitsElsewhere() bool {
	return slices.ContainsFunc(x.model.Route.Targets(), func(t routing.Target) bool { return x.isLongerAndFits(&t) && x.isTargetAvailable(&t) })
}

// appendTooShort appends the ids of the engines whose context is too short for the call.
func (x *contextComparison) appendTooShort(ids []upstreams.ID) []upstreams.ID {
	targets := x.model.Route.Targets()
	for i := range targets {
		if !x.isLongerAndFits(&targets[i]) {
			ids = append(ids, targets[i].Upstream.ID())
		}
	}
	return ids
}

// explainOverflow adds the longest available context to an error about a prompt that is too long.
// Agents parse the error message and shorten their conversation.
func (x *contextComparison) explainOverflow(f *failure.Failure) {
	longest, targets := f.API.Overflow.Max, x.model.Route.Targets()
	for i := range targets {
		if x.isTargetAvailable(&targets[i]) {
			longest = max(longest, x.contextLength(&targets[i]))
		}
	}
	f.ExplainOverflow(x.minAnswerTokens(), longest)
}
