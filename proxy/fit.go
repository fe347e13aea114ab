package proxy

import (
	"errors"
	"fmt"

	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Agents ask for as many tokens as their own provider's models have, whatever the context is here.
// The edge lowers that limit to the room that the engine has beside the prompt. It can only
// estimate the prompt; an engine that refuses the sum reports its count, and the edge asks it once
// more. That is not a retry: nothing failed, the retry budget is not charged and the client does
// not notice.

// tokenLimited is a request with a limit on its answer's tokens.
type tokenLimited interface {
	// TokenLimit is the limit that the engine is sent; -1: none.
	TokenLimit() int
	// Fit lowers it; a negative limit undoes an earlier Fit.
	Fit(limit int)
}

// limited returns the call's request if the limit on its answer's tokens may be lowered; otherwise
// nil.
func (c *Call) limited() tokenLimited {
	if c.model.Rules.Strict {
		return nil
	}
	if c.chat != nil {
		return &c.chat.Tokens
	}
	l, _ := c.payload.(tokenLimited)
	return l
}

// fit lowers the limit on the answer's tokens to what a target has room for, as far as that is
// known.
func (c *Call) fit(t *routing.Target) {
	l := c.limited()
	if l == nil {
		return
	}
	l.Fit(-1)
	asked := l.TokenLimit()
	if asked <= 0 {
		return
	}
	if limit := chat.FitLimit(asked, c.contextOf(t), c.promptLength()); limit < asked {
		l.Fit(limit)
	}
}

// contextOf returns the context in tokens that a target has for the call: the smaller one of the
// engine's and the configured one; 0: neither is known.
func (c *Call) contextOf(t *routing.Target) int {
	configured := c.model.Rules.ContextLength
	if c.chat != nil {
		configured = c.model.Rules.Context(len(c.chat.Prompt.Images) > 0)
	}
	n := t.Upstream.Models.MaxContext(t.Served)
	if n == 0 || configured > 0 && configured < n {
		return configured
	}
	return n
}

// promptLength returns the prompt's length in tokens, as an engine counted it or estimated; of
// several prompts, the length of the longest one.
func (c *Call) promptLength() int {
	if c.counted > 0 {
		return c.counted
	}
	if p, ok := c.payload.(jsonPayload); ok {
		return p.LongestPrompt(c.model.Route.BytesPerToken())
	}
	return c.promptTokens
}

// refit lowers the limit to the room of the engine that refused it. It reports whether to ask that
// engine again.
func (c *Call) refit(f *failure) bool {
	if f.api.Code != apierr.CodeContextLength {
		return false
	}
	l := c.limited()
	if l == nil || l.TokenLimit() <= 0 {
		return false
	}
	sent, o := l.TokenLimit(), f.api.Overflow
	if o.Known() && !o.Least {
		c.counted = o.Prompt
	}
	if limit, ok := chat.RefitLimit(sent, o.Prompt, o.Max, o.Least); ok && c.refits == 0 {
		l.Fit(limit)
		c.refits++
		c.shared.Counters.Refits.Inc()
		return true
	}
	return false
}

// roomElsewhere reports whether the call may move, once, from an engine that has no room for the
// prompt to one that has. It excludes the engines with less room. If there is no other engine, it
// puts the longest context into the failure, in the words that make agents shorten their
// conversation.
func (c *Call) roomElsewhere(f *failure) bool {
	if f.api.Code != apierr.CodeContextLength || c.model.Rules.Strict || c.attempt.target == nil || c.upload != nil {
		return false
	}
	least := chat.LeastAnswer
	if l := c.limited(); l != nil && l.TokenLimit() >= 0 {
		least = min(least, l.TokenLimit())
	}
	need, here := c.promptLength()+least, c.contextOf(c.attempt.target)
	found, longest := false, f.api.Overflow.Max
	targets := c.model.Route.Targets()
	for i := range targets {
		t := &targets[i]
		n, up := c.contextOf(t), t.Upstream.State() == upstreams.StateUp
		if up {
			longest = max(longest, n)
		}
		if n > here && n >= need {
			found = found || up
		} else {
			c.tried = append(c.tried, t.Upstream.ID())
		}
	}
	if found && c.moves == 0 {
		c.moves++
		c.refits++
		c.shared.Counters.Refits.Inc()
		return true
	}
	f.explainOverflow(least, longest)
	return false
}

// explainOverflow rewrites the failure of a prompt that leaves the context less room than least
// tokens.
func (f *failure) explainOverflow(least, context int) {
	o := &f.api.Overflow
	if !o.Known() || o.Prompt+least <= context {
		return
	}
	if context > o.Max || o.Answer > 0 {
		f.api.Message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens, which leaves too few for an answer. "+
			"Please reduce the length of the input messages.", context, o.Prompt)
	}
	if o.Prompt <= context {
		o.Prompt += least // the reported numbers must exceed the context
	}
	o.Answer, o.Max = 0, context
}

func isFull(err error) bool {
	var full *routing.FullError
	return errors.As(err, &full)
}
