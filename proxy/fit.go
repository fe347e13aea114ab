package proxy

import (
	"errors"
	"fmt"

	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Agents ask for as many tokens as their own provider's models have, whatever the context is here. What is sent is what the engine
// has room for beside the prompt. The edge can only estimate the prompt; an engine that refuses the sum tells the count, and is then
// asked once more. That is no retry: nothing failed, and neither the retry budget nor the client notices.

// tokenLimited is a request with a limit on its answer's tokens.
type tokenLimited interface {
	// TokenLimit is the limit that the engine is told; -1: none.
	TokenLimit() int
	// Fit lowers it; a negative limit takes an earlier one back.
	Fit(limit int)
}

// limited returns the call's request if its answer's tokens have a limit which may be lowered, or else nil.
func (c *Call) limited() tokenLimited {
	if c.model.limits.Strict {
		return nil
	}
	if c.chat != nil {
		return c.chat
	}
	l, _ := c.payload.(tokenLimited)
	return l
}

// fit lowers the limit on the answer's tokens to what a target has room for, as far as that is known.
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

// contextOf is the context in tokens that a target has for the call: the engine's or the configured one, whichever is smaller; 0:
// neither is known.
func (c *Call) contextOf(t *routing.Target) int {
	configured := c.model.limits.ContextLength
	if c.chat != nil {
		configured = c.model.limits.Context(c.chat)
	}
	n := t.Upstream.MaxContext(t.Served)
	if n == 0 || configured > 0 && configured < n {
		return configured
	}
	return n
}

// promptLength is the prompt's length in tokens: counted by an engine, or estimated. Of several prompts it is the longest one's.
func (c *Call) promptLength() int {
	if c.counted > 0 {
		return c.counted
	}
	if p, ok := c.payload.(jsonPayload); ok {
		return p.LongestPrompt(c.model.route.BytesPerToken())
	}
	return c.promptTokens
}

// refit lowers the limit to what the engine that refused it has room for, and reports whether the engine is to be asked again.
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
		c.edge.counters.refits.Inc()
		return true
	}
	return false
}

// roomElsewhere reports whether an engine that has no room for the prompt may be left for one that has, once. Those with less room
// are not asked. Where there is no other, the failure tells what the engine with the longest context has room for, in the words by
// which agents shorten their conversation.
func (c *Call) roomElsewhere(f *failure) bool {
	if f.api.Code != apierr.CodeContextLength || c.model.limits.Strict || c.attempt.target == nil || c.upload != nil {
		return false
	}
	least := chat.LeastAnswer
	if l := c.limited(); l != nil && l.TokenLimit() >= 0 {
		least = min(least, l.TokenLimit())
	}
	need, here := c.promptLength()+least, c.contextOf(c.attempt.target)
	found, longest := false, f.api.Overflow.Max
	targets := c.model.route.Targets()
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
		c.edge.counters.refits.Inc()
		return true
	}
	f.explainOverflow(least, longest)
	return false
}

// explainOverflow tells of a prompt that leaves a context no room for the fewest tokens that an answer may have.
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
		o.Prompt += least // what is told in numbers must be too much
	}
	o.Answer, o.Max = 0, context
}

func isFull(err error) bool {
	var full *routing.FullError
	return errors.As(err, &full)
}
