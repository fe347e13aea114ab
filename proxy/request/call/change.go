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

type change struct {
	limit   int              // new token limit; 0 means unchanged
	refused endpoint.Refused // parts to remove from the request
}

// changeAfter chooses a change after which the engine may accept the rejected request. It decides
// by the engine's error and the sent request. ok is false if no change helps. A change does one of
// the following:
//
//   - It lowers the token limit.
//   - It joins consecutive turns of the same role.
//   - It removes a reasoning effort that the engine or the model's template does not support.
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

// tookChange reports whether an engine that rejected the changed request nevertheless accepted the
// change. The change counts as accepted if the new error is about another subject.
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

// A changed request goes to the engine that rejected the original request. Sending it does not
// count as a retry or use the retry budget, and the client does not notice.

// noteRejection records what a rejection says about the request: how long its prompt is, and
// whether the engine accepted an earlier change.
func (c *Call) noteRejection(f *failure.Failure) {
	if c.config.model.Rules.Strict || c.attempt.Target() == nil {
		return
	}
	if n := countedPrompt(f); n > 0 && c.request.Limit().TokenLimit() > 0 {
		c.tokens.counted = n
	}
	if tookChange(c.tries.refused, f) {
		c.learnRefusal()
	}
}

// changeFor returns the change after which the current engine may accept the request.
func (c *Call) changeFor(f *failure.Failure) (change, bool) {
	target := c.attempt.Target()
	if target == nil {
		return change{}, false
	}
	to := c.requestTarget(c.attempt.Lease().Upstream(), target)
	return changeAfter(f, endpoint.SentOf(c.request, &to))
}

func (c *Call) applyChange(changed change) {
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
}

// requestTarget returns the endpoint.Target of an attempt, including the changes that the engine is
// known to need.
func (c *Call) requestTarget(up *upstreams.Upstream, target *routing.Target) endpoint.Target {
	m := c.config.model
	to := endpoint.Target{
		Upstream: up, Model: m, Served: target.Served, Stream: c.request.WantsStream(up.Engine()), Formats: &c.shared.formats,
		Priority: endpoint.PriorityOf(up, m, c.tries.rank),
		Refused:  c.shared.refusals.of(refusalKey{up.ID(), target.Served}, c.times.begun).And(c.tries.refused),
	}
	if c.ep.CachesPrompts {
		to.Salt = c.shared.salt(m.CacheOwner(c.rates.key), m, up)
	}
	return to
}

// learnRefusal stores that the engine accepts the changed request, so that later requests to the
// engine are changed before they are sent.
func (c *Call) learnRefusal() {
	changed, target := c.tries.refused, c.attempt.Target()
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

// refusals stores, by engine and model, which parts of requests engines reject. Entries expire,
// because an operator may fix the template. A refusals may be used by multiple goroutines.
type refusals struct {
	mu    sync.Mutex
	known atomic.Pointer[map[refusalKey]refusal] // copied on write
}

type refusalKey struct {
	upstream upstreams.ID
	served   string
}

type refusal struct {
	refused endpoint.Refused
	until   time.Time
}

// refusalLasts is how long a refusal is stored. Learning the refusal again costs one request.
const refusalLasts = time.Hour

// of returns the parts of a request that an engine is known to reject for a model. If no refusals
// are known at all, of costs one atomic load.
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

func (r *refusals) Known(up upstreams.ID, served string, now time.Time) endpoint.Refused {
	return r.of(refusalKey{up, served}, now)
}

func (*refusals) After(why *failure.Failure, sent endpoint.Sent) (limit int, refused endpoint.Refused, ok bool) {
	c, ok := changeAfter(why, sent)
	return c.limit, c.refused, ok
}

func (r *refusals) Learn(up upstreams.ID, served string, refused endpoint.Refused, now time.Time) {
	r.add(refusalKey{up, served}, refused, now)
}

// add stores a refusal and reports whether it is new.
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
