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

// Agents request as many tokens as their provider's models allow, however small the engine's
// context is. The edge therefore lowers the token limit of a request to the number of tokens that
// fit into the engine's context. It can only estimate the length of the prompt. An engine that
// rejects the sum of prompt and limit reports how many tokens the prompt has. The edge then sends a
// changed request to the same engine (change.go), or the same request to an engine with a longer
// context.

// lowerLimit lowers the token limit of the request to what fits into the context of a target.
func (c *Call) lowerLimit(t *routing.Target) {
	if m := c.config.model; !m.Rules.Strict {
		attempt.LowerLimit(m, c.request.Limit(), c.promptLength, t)
	}
}

// promptLength returns the length of the prompt in tokens: the engine's count if there is one,
// otherwise an estimate. If the request has more than one prompt, the longest counts.
func (c *Call) promptLength() int {
	if c.tokens.counted > 0 {
		return c.tokens.counted
	}
	return c.request.Limit().Prompt(c.config.model.Route.BytesPerToken(), c.tokens.prompt)
}

// countedPrompt returns the length of a prompt that an engine has counted before it rejected the
// request. It returns 0 if the failure does not contain the length.
func countedPrompt(f *failure.Failure) int {
	if o := f.API.Overflow; f.API.Code == apierr.CodeContextLength && o.Known() && !o.Least {
		return o.Prompt
	}
	return 0
}

// contexts compares the contexts of a model's targets for a prompt that did not fit into the
// context of one of them.
type contexts struct {
	model  *snapshot.Model
	limit  endpoint.TokenLimit
	prompt int             // length of the prompt in tokens
	at     *routing.Target // target that rejected the prompt
	tiers  uint8           // the external tiers that the key may use
}

func (c *Call) contexts() contexts {
	return contexts{c.config.model, c.request.Limit(), c.promptLength(), c.attempt.Target(), c.tiers()}
}

func (x *contexts) of(t *routing.Target) int { return attempt.ContextOf(x.model, x.limit, t) }

// leastAnswer returns how many tokens must remain after the prompt in the context of another
// engine.
func (x *contexts) leastAnswer() int {
	if limit := x.limit.TokenLimit(); limit >= 0 {
		return min(chat.LeastAnswer, limit)
	}
	return chat.LeastAnswer
}

// larger reports whether the context of a target is longer than that of the current target, and
// long enough for the call.
func (x *contexts) larger(t *routing.Target) bool {
	n := x.of(t)
	return n > x.of(x.at) && n >= x.prompt+x.leastAnswer()
}

func (x *contexts) takesCalls(t *routing.Target) bool {
	return t.Upstream.State() == upstreams.StateUp && t.OpenTo(x.tiers)
}

func (x *contexts) roomElsewhere() bool {
	return slices.ContainsFunc(x.model.Route.Targets(), func(t routing.Target) bool { return x.larger(&t) && x.takesCalls(&t) })
}

// appendSmaller appends the ids of the engines whose context is too short.
func (x *contexts) appendSmaller(ids []upstreams.ID) []upstreams.ID {
	targets := x.model.Route.Targets()
	for i := range targets {
		if !x.larger(&targets[i]) {
			ids = append(ids, targets[i].Upstream.ID())
		}
	}
	return ids
}

// explain adds the longest available context to an error about a prompt that is too long. Agents
// parse this text and shorten their conversation.
func (x *contexts) explain(f *failure.Failure) {
	longest, targets := f.API.Overflow.Max, x.model.Route.Targets()
	for i := range targets {
		if x.takesCalls(&targets[i]) {
			longest = max(longest, x.of(&targets[i]))
		}
	}
	f.ExplainOverflow(x.leastAnswer(), longest)
}
