package call

import (
	"penstock/proxy/attempt"
	"penstock/proxy/failure"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// fitter lowers the limit on an answer's tokens to the room that an engine has.
//
// Agents ask for as many tokens as their own provider's models have, whatever the context is here.
// The edge lowers that limit to the room that the engine has beside the prompt. It can only
// estimate the prompt; an engine that refuses the sum reports its count, and the edge asks it once
// more (change.go), or one with more room.
type fitter struct{ call *Call }

// strict reports whether limits are not lowered.
func (f fitter) strict() bool { return f.call.config.model.Rules.Strict }

// lower lowers the limit to what a target has room for, as far as that is known.
func (f fitter) lower(t *routing.Target) {
	if !f.strict() {
		attempt.LowerLimit(f.call.config.model, f.call.request.Limit(), f.promptLength, t)
	}
}

// promptLength returns the prompt's length in tokens, as an engine counted it or estimated; of
// several prompts, the length of the longest one.
func (f fitter) promptLength() int {
	if f.call.tokens.counted > 0 {
		return f.call.tokens.counted
	}
	return f.call.request.Limit().Prompt(f.call.config.model.Route.BytesPerToken(), f.call.tokens.prompt)
}

// count notes the length of the prompt that an engine reports when it refuses it.
func (f fitter) count(why *failure.Failure) {
	if o := why.API.Overflow; why.API.Code == apierr.CodeContextLength && o.Known() && !o.Least &&
		f.call.request.Limit().TokenLimit() > 0 {
		f.call.tokens.counted = o.Prompt
	}
}

// roomElsewhere reports whether the call may move, once, from an engine that has no room for the
// prompt to one that has. It excludes the engines with less room. If there is no other engine, it
// puts the longest context into the failure, in the words that make agents shorten their
// conversation.
func (f fitter) roomElsewhere(why *failure.Failure) bool {
	at := f.call.attempt.Target()
	if why.API.Code != apierr.CodeContextLength || f.strict() || at == nil || f.call.ep.Form {
		return false
	}
	l := f.call.request.Limit()
	least := chat.LeastAnswer
	if limit := l.TokenLimit(); limit >= 0 {
		least = min(least, limit)
	}
	m := f.call.config.model
	need, here := f.promptLength()+least, attempt.ContextOf(m, l, at)
	found, longest := false, why.API.Overflow.Max
	targets := m.Route.Targets()
	for i := range targets {
		t := &targets[i]
		n, up := attempt.ContextOf(m, l, t), t.Upstream.State() == upstreams.StateUp && t.OpenTo(picker(f).tiers())
		if up {
			longest = max(longest, n)
		}
		if n > here && n >= need {
			found = found || up
		} else {
			f.call.tries.exclude(t.Upstream)
		}
	}
	if found && f.call.tries.moves == 0 {
		f.call.tries.moves++
		f.call.tries.changes++
		f.call.shared.Counters.Refits.Inc()
		return true
	}
	why.ExplainOverflow(least, longest)
	return false
}
