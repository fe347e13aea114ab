package call

import (
	"errors"
	"slices"
	"time"

	"penstock/config"
	"penstock/proxy/running/snapshot"
	"penstock/translate/chat"
)

// A fallback model may answer a call if none of the upstreams of the requested model can.

// fallbackModels are the fallback models that a call has not tried. Each is tried at most once. The
// fallbacks of a fallback are not tried.
type fallbackModels struct {
	ids    []string
	loaded bool
}

// load loads the fallbacks of the requested model. Later calls to load do nothing, because the
// model may be a fallback by then.
func (f *fallbackModels) load(requested *config.Model) {
	if !f.loaded {
		f.loaded, f.ids = true, requested.Fallback
	}
}

// usableFallback returns the fallback with the given id if the key may use it and it serves the
// endpoint. Otherwise, it returns nil.
func (c *Call) usableFallback(id string) *snapshot.Model {
	m, ok := c.config.snapshot.ModelByID(id)
	if key := c.limits.key; !ok || key != nil && !key.AllowsModel(m.Config.ID) || !c.ep.ServesModel(m) {
		return nil
	}
	return m
}

// acquireFallback acquires a slot at the first fallback model that can answer the request and has a
// free slot. It does not wait for a slot. If no fallback can answer, acquireFallback returns why
// unchanged.
func (c *Call) acquireFallback(now time.Time, why error) (engineSlot, error) {
	if !c.hasFallback() || c.abort.Cause() != nil || errors.Is(why, errTotalTimeout) {
		return engineSlot{}, why
	}
	for f := &c.search.fallbacks; len(f.ids) > 0; {
		m := c.usableFallback(f.ids[0])
		if f.ids = f.ids[1:]; m == nil || m.HasWaitingCalls() {
			continue
		}
		if s, ok := c.acquireFrom(m, now); ok {
			return s, nil
		}
	}
	return engineSlot{}, why
}

// hasFallback reports whether any fallback that has not been tried may give the complete answer.
// This is possible even after the client has received the announcement of an answer. The edge
// itself creates the announcement and puts the requested model into it.
func (c *Call) hasFallback() bool {
	f := &c.search.fallbacks
	f.load(c.config.model.Config)
	usable := func(id string) bool { return c.usableFallback(id) != nil }
	return slices.ContainsFunc(f.ids, usable) && !c.request.IsConsumed() && !(c.record.Committed && (!c.body.HasBytes() || c.clientHasAnswer()))
}

// acquireFrom acquires a slot for the call at the model m and makes m the model of the call. It
// fails if m cannot answer the call or has no free slot.
func (c *Call) acquireFrom(m *snapshot.Model, now time.Time) (engineSlot, bool) {
	checked, err := c.request.CheckModelRules(m, c.record.Start)
	if err != nil || !promptFitsContext(m, c.tokens.estimatedPrompt, now) {
		return engineSlot{}, false
	}
	t := &c.search
	before, pool, excluded := c.config.model, t.pool, len(t.excluded)
	c.config.model, t.pool, t.conversation.hashes = m, checked.Pool, t.conversation.hashes[:0]
	t.excluded = m.Route.AppendTooShortUpstreams(append(t.excluded, checked.Unfit...), c.tokens.estimatedPrompt)
	q := c.routingQuery(now)
	q.Overflow, q.RetryAfter = true, 0
	s, err := acquireSlot(m.Route, &q)
	if err != nil {
		c.config.model, t.pool, t.conversation.hashes, t.excluded = before, pool, t.conversation.hashes[:0], t.excluded[:excluded]
		return engineSlot{}, false
	}
	if c.record.Asked == "" {
		c.record.Asked = c.record.Model
	}
	c.callStatus.fallbackModel.Store(m)
	c.record.Model, c.record.Pool, c.record.Dropped = m.Config.ID, checked.PoolName, checked.Dropped
	c.tokens.promptBytes, t.usesOverflow = checked.PromptBytes, true
	return s, true
}

// promptFitsContext reports whether a prompt and a short answer fit into the context of m. It
// returns true if the context length is unknown.
func promptFitsContext(m *snapshot.Model, prompt int, now time.Time) bool {
	context := m.Config.ContextLength
	if context == 0 {
		context = m.Route.ContextLength(now)
	}
	return context == 0 || prompt+chat.MinAnswerTokens <= context
}
