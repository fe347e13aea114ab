package call

import (
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// fitter lowers the token limit of a request to the number of tokens that fit into an engine's
// context. Agents request as many tokens as their provider's models allow, however small the
// engine's context is. The edge can only estimate the length of the prompt. An engine that rejects
// the sum of prompt and limit reports how many tokens the prompt has. The edge then sends a changed
// request to the same engine (change.go), or the same request to an engine with a longer context.
type fitter struct{ call *Call }

func (f fitter) strict() bool { return f.call.config.model.Rules.Strict }

func (f fitter) lower(t *routing.Target) {
	if !f.strict() {
		attempt.LowerLimit(f.call.config.model, f.call.request.Limit(), f.promptLength, t)
	}
}

// promptLength returns the length of the prompt in tokens: the engine's count if there is one,
// otherwise an estimate. If the request has more than one prompt, the longest counts.
func (f fitter) promptLength() int {
	if f.call.tokens.counted > 0 {
		return f.call.tokens.counted
	}
	return f.call.request.Limit().Prompt(f.call.config.model.Route.BytesPerToken(), f.call.tokens.prompt)
}

func (f fitter) count(why *failure.Failure) {
	if o := why.API.Overflow; why.API.Code == apierr.CodeContextLength && o.Known() && !o.Least &&
		f.call.request.Limit().TokenLimit() > 0 {
		f.call.tokens.counted = o.Prompt
	}
}

func (f fitter) roomElsewhere() bool {
	found := false
	f.targets(func(t *routing.Target, context int, larger bool) {
		found = found || larger && f.takesCalls(t)
	})
	return found
}

// excludeSmaller excludes the engines whose context is no longer than that of the current engine.
func (f fitter) excludeSmaller() {
	f.targets(func(t *routing.Target, _ int, larger bool) {
		if !larger {
			f.call.tries.exclude(t.Upstream)
		}
	})
}

// explain adds the longest available context to an error about a prompt that is too long. Agents
// parse this text and shorten their conversation.
func (f fitter) explain(why *failure.Failure) {
	if why.API.Code != apierr.CodeContextLength || f.strict() || f.call.attempt.Target() == nil || f.call.ep.Form {
		return
	}
	longest := why.API.Overflow.Max
	f.targets(func(t *routing.Target, context int, _ bool) {
		if f.takesCalls(t) {
			longest = max(longest, context)
		}
	})
	why.ExplainOverflow(f.leastAnswer(), longest)
}

func (f fitter) takesCalls(t *routing.Target) bool {
	return t.Upstream.State() == upstreams.StateUp && t.OpenTo(picker(f).tiers())
}

// leastAnswer returns how many tokens must remain after the prompt in the context of another
// engine.
func (f fitter) leastAnswer() int {
	if limit := f.call.request.Limit().TokenLimit(); limit >= 0 {
		return min(chat.LeastAnswer, limit)
	}
	return chat.LeastAnswer
}

// targets calls visit with each target of the model and the target's context length. larger is true
// if that context is longer than the current target's and long enough for the call.
func (f fitter) targets(visit func(t *routing.Target, context int, larger bool)) {
	m, l := f.call.config.model, f.call.request.Limit()
	need, here := f.promptLength()+f.leastAnswer(), attempt.ContextOf(m, l, f.call.attempt.Target())
	targets := m.Route.Targets()
	for i := range targets {
		n := attempt.ContextOf(m, l, &targets[i])
		visit(&targets[i], n, n > here && n >= need)
	}
}
