package call

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/engineerror"
	"penstock/upstreams"
)

// change says how a request differs when it is sent again to the engine that refused it.
type change struct {
	limit   int              // the answer's token limit; 0: unchanged
	refused endpoint.Refused // what the request no longer contains
}

// changeAfter returns a change with which an engine may accept a request that it refused, judging
// by the engine's error and by what was sent. The change lowers the token limit to the room in the
// engine's context, joins consecutive turns with the same role, or omits a reasoning effort that
// the engine or the model's template does not know. ok is false if no change would help.
func changeAfter(why *failure.Failure, sent endpoint.Sent) (c change, ok bool) {
	switch o := why.API.Overflow; {
	case why.API.Code == apierr.CodeContextLength && sent.Limit > 0:
		c.limit, ok = chat.RefitLimit(sent.Limit, o.Prompt, o.Max, o.Least)
	case why.About == engineerror.SubjectEffort && sent.Effort != "":
		c.refused.Efforts, ok = chat.EffortsOf(sent.Effort), true
	case why.About == engineerror.SubjectRoles && sent.AdjacentTurns:
		c.refused.AdjacentTurns, ok = true, true
	}
	return c, ok
}

// tookChange reports whether an engine that refused the changed request nevertheless accepted the
// change. It did so if its error is now about something else.
func tookChange(changed endpoint.Refused, why *failure.Failure) bool {
	switch {
	case changed == (endpoint.Refused{}):
		return false
	case why.API.Code == apierr.CodeContextLength:
		return true
	case changed.AdjacentTurns:
		return why.About == engineerror.SubjectEffort
	}
	return why.About == engineerror.SubjectRoles
}

// changer sends a call once more, changed so that its engine may accept it. This is not a retry:
// nothing failed, the retry budget is not charged and the client does not notice.
type changer struct{ call *Call }

// note records what a refusal reveals: the prompt's length, and whether the engine accepted an
// earlier change.
func (h changer) note(why *failure.Failure) {
	c := h.call
	if c.config.model.Rules.Strict || c.attempt.Target() == nil {
		return
	}
	fitter(h).count(why)
	if tookChange(c.tries.refused, why) {
		h.learn()
	}
}

// helps reports whether the engine that refused the request may accept a changed one.
func (h changer) helps(why *failure.Failure) bool {
	_, ok := h.after(why)
	return ok
}

func (h changer) after(why *failure.Failure) (change, bool) {
	c := h.call
	if c.attempt.Target() == nil {
		return change{}, false
	}
	to := h.target(c.attempt.Lease(), c.attempt.Target())
	return changeAfter(why, endpoint.SentOf(c.request, &to))
}

// change changes the request for the engine that refused it. It returns false if no change would
// help.
func (h changer) change(why *failure.Failure) bool {
	c := h.call
	changed, ok := h.after(why)
	if !ok {
		return false
	}
	counters := &c.shared.Counters
	switch {
	case changed.limit > 0:
		c.request.Limit().Fit(changed.limit)
		counters.Refits.Inc()
	case changed.refused.AdjacentTurns:
		counters.withoutTurns.Inc()
	default:
		counters.withoutEffort.Inc()
	}
	c.tries.refused = changed.refused
	return true
}

// target returns the engine of an attempt, together with what that engine is known to refuse.
func (h changer) target(lease *upstreams.Lease, target *routing.Target) endpoint.Target {
	c, up := h.call, lease.Upstream()
	m := c.config.model
	to := endpoint.Target{
		Upstream: up, Model: m, Served: target.Served, Stream: c.request.AsksStream(up.Engine()), Formats: &c.shared.formats,
		Priority: endpoint.PriorityOf(up, m, c.tries.rank),
		Refused:  c.shared.refusals.of(refusalKey{up.ID(), target.Served}, c.times.asked).And(c.tries.refused),
	}
	if c.ep.CachesPrompts {
		to.Salt = c.shared.salt(m.CacheOwner(c.rates.key), m, up)
	}
	return to
}

// learn remembers a change that the engine has accepted.
func (h changer) learn() {
	c, changed := h.call, h.call.tries.refused
	target := c.attempt.Target()
	if changed == (endpoint.Refused{}) || target == nil {
		return
	}
	c.tries.refused = endpoint.Refused{}
	if !c.shared.refusals.add(refusalKey{target.Upstream.ID(), target.Served}, changed, time.Now()) {
		return
	}
	text := "an engine refuses a word of the reasoning effort, which is left out for an hour: " +
		"list the words that it takes in the model's supported_reasoning_efforts"
	if changed.AdjacentTurns {
		text = "an engine refuses turns of one role in a row, which are joined for an hour: " +
			"write adjacent_turns: joined in a profile of its own (engines)"
	}
	c.shared.Log.Info(text,
		zap.String("model", c.config.model.Config.ID), zap.String("upstream", target.Upstream.Label()))
}

// refusals records what engines refuse in requests for their models. Each entry expires after a
// while, because a template can be fixed. Any goroutine may use refusals.
type refusals struct {
	mu    sync.Mutex
	known atomic.Pointer[map[refusalKey]refusal] // copied on change
}

type refusalKey struct {
	upstream upstreams.ID
	served   string
}

type refusal struct {
	refused endpoint.Refused
	until   time.Time
}

// refusalLasts is how long a refusal is remembered. Learning it again costs one more request.
const refusalLasts = time.Hour

// of returns what an engine is known to refuse in requests for a model. It costs one atomic load if
// nothing is known.
func (r *refusals) of(key refusalKey, now time.Time) endpoint.Refused {
	known := r.known.Load()
	if known == nil {
		return endpoint.Refused{}
	}
	if f, ok := (*known)[key]; ok && now.Before(f.until) {
		return f.refused
	}
	return endpoint.Refused{}
}

// Known implements shadow.Changes.
func (r *refusals) Known(up upstreams.ID, served string, now time.Time) endpoint.Refused {
	return r.of(refusalKey{up, served}, now)
}

// After implements shadow.Changes.
func (*refusals) After(why *failure.Failure, sent endpoint.Sent) (limit int, refused endpoint.Refused, ok bool) {
	c, ok := changeAfter(why, sent)
	return c.limit, c.refused, ok
}

// Learn implements shadow.Changes.
func (r *refusals) Learn(up upstreams.ID, served string, refused endpoint.Refused, now time.Time) {
	r.add(refusalKey{up, served}, refused, now)
}

// add records what an engine has refused. It reports whether the entry is new.
func (r *refusals) add(key refusalKey, refused endpoint.Refused, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[refusalKey]refusal{}
	if known := r.known.Load(); known != nil {
		for k, f := range *known {
			if now.Before(f.until) {
				next[k] = f
			}
		}
	}
	before := next[key].refused
	next[key] = refusal{before.And(refused), now.Add(refusalLasts)}
	r.known.Store(&next)
	return next[key].refused != before
}
