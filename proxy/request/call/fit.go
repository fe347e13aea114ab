package call

import (
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// fitter lowers an answer's token limit to the room that an engine has.
//
// Agents ask for as many tokens as their own provider's models allow, whatever context the engine
// has. The edge lowers that limit to the room that the prompt leaves in the engine's context. It
// can only estimate the prompt's length. An engine that refuses prompt and limit together reports
// its own count of the prompt. The edge then sends the request once more (change.go), or sends it
// to an engine with more room.
type fitter struct{ call *Call }

// strict reports whether limits must not be lowered.
func (f fitter) strict() bool { return f.call.config.model.Rules.Strict }

// lower lowers the limit to the room that a target is known to have.
func (f fitter) lower(t *routing.Target) {
	if !f.strict() {
		attempt.LowerLimit(f.call.config.model, f.call.request.Limit(), f.promptLength, t)
	}
}

// promptLength returns the number of tokens in the prompt, as counted by an engine or estimated by
// the edge. If there are several prompts, the longest counts.
func (f fitter) promptLength() int {
	if f.call.tokens.counted > 0 {
		return f.call.tokens.counted
	}
	return f.call.request.Limit().Prompt(f.call.config.model.Route.BytesPerToken(), f.call.tokens.prompt)
}

// count records the prompt's length as reported by an engine that refused it.
func (f fitter) count(why *failure.Failure) {
	if o := why.API.Overflow; why.API.Code == apierr.CodeContextLength && o.Known() && !o.Least &&
		f.call.request.Limit().TokenLimit() > 0 {
		f.call.tokens.counted = o.Prompt
	}
}

// roomElsewhere reports whether another engine has room for a prompt that is too long for the
// current one.
func (f fitter) roomElsewhere() bool {
	found := false
	f.targets(func(t *routing.Target, context int, larger bool) {
		found = found || larger && f.takesCalls(t)
	})
	return found
}

// excludeSmaller excludes the engines whose context is no larger than the current engine's.
func (f fitter) excludeSmaller() {
	f.targets(func(t *routing.Target, _ int, larger bool) {
		if !larger {
			f.call.tries.exclude(t.Upstream)
		}
	})
}

// explain adds the longest context to the error for a prompt that is too long. Agents recognize
// the wording and shorten their conversation.
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

// leastAnswer returns the number of tokens for which another engine must have room if the call is
// to be worth sending to it.
func (f fitter) leastAnswer() int {
	if limit := f.call.request.Limit().TokenLimit(); limit >= 0 {
		return min(chat.LeastAnswer, limit)
	}
	return chat.LeastAnswer
}

// targets calls visit for each of the model's targets, with the target's context. larger is true if
// this context is larger than the current target's and large enough for the call.
func (f fitter) targets(visit func(t *routing.Target, context int, larger bool)) {
	m, l := f.call.config.model, f.call.request.Limit()
	need, here := f.promptLength()+f.leastAnswer(), attempt.ContextOf(m, l, f.call.attempt.Target())
	targets := m.Route.Targets()
	for i := range targets {
		n := attempt.ContextOf(m, l, &targets[i])
		visit(&targets[i], n, n > here && n >= need)
	}
}
