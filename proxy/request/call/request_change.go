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

type requestChange struct {
	limit   int                    // new token limit; 0 means unchanged
	refused endpoint.RejectedParts // parts to remove from the request
}

// chooseRequestChange chooses a change after which the engine may accept the rejected request. The
// choice depends on the engine's error and the sent request. ok is false if no change helps. A
// change does one of the following:
//
//   - It lowers the token limit.
//   - It joins consecutive turns of the same role.
//   - It removes a reasoning effort that the engine or the model's template does not support.
func chooseRequestChange(why *failure.Failure, sent endpoint.SentParts) (c requestChange, ok bool) {
	switch o := why.API.Overflow; {
	case why.API.Code == apierr.CodeContextLength && sent.Limit > 0:
		c.limit, ok = chat.RefitLimit(sent.Limit, o.Prompt, o.Max, o.Least)
	case why.About == engineerror.SubjectEffort && sent.Effort != "":
		c.refused.Efforts, ok = chat.NewEffortSet(sent.Effort), true
	case why.About == engineerror.SubjectRoles && sent.AdjacentTurns:
		c.refused.AdjacentTurns, ok = true, true
	}
	return c, ok
}

// hasEngineAcceptedChange reports whether an engine that rejected a changed request accepted the
// change itself. It did if the new error is about another subject.
func hasEngineAcceptedChange(changed endpoint.RejectedParts, why *failure.Failure) bool {
	switch {
	case changed == (endpoint.RejectedParts{}):
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

// recordRejection stores what a rejection reveals: how long the prompt is, and whether the engine
// accepted an earlier change.
func (c *Call) recordRejection(f *failure.Failure) {
	if c.config.model.Rules.Strict || c.attempt.Target() == nil {
		return
	}
	if n := countedPromptTokens(f); n > 0 {
		c.tokens.engineCount = n
	}
	if hasEngineAcceptedChange(c.attemptState.pendingChanges, f) {
		c.learnNeededChange()
	}
}

// findRequestChange returns a change after which the current engine may accept the request.
func (c *Call) findRequestChange(f *failure.Failure) (requestChange, bool) {
	target := c.attempt.Target()
	if target == nil {
		return requestChange{}, false
	}
	to := c.endpointTarget(c.attempt.Lease().Upstream(), target)
	return chooseRequestChange(f, endpoint.DescribeSentParts(c.request, &to))
}

func (c *Call) applyRequestChange(changed requestChange) {
	counters := &c.services.Counters
	switch {
	case changed.limit > 0:
		c.request.AnswerTokenLimit().LowerTo(changed.limit)
		counters.Refits.Inc()
	case changed.refused.AdjacentTurns:
		counters.turnsJoined.Inc()
	default:
		counters.effortRemoved.Inc()
	}
	c.attemptState.pendingChanges = changed.refused
}

// endpointTarget returns the endpoint.Target of an attempt, including the changes that the engine
// is known to need.
func (c *Call) endpointTarget(up *upstreams.Upstream, target *routing.Target) endpoint.Target {
	m := c.config.model
	to := endpoint.Target{
		Upstream: up, Model: m, Served: target.Served, Stream: c.request.WantsStream(up.Engine()), Formats: &c.services.formats,
		Priority: endpoint.EnginePriority(up, m, c.search.classRank),
		Refused:  c.services.refusals.lookupRejectedParts(refusalKey{up.ID(), target.Served}, c.times.stepStart).Union(c.attemptState.pendingChanges),
	}
	if c.ep.CachesPrompts {
		to.Salt = c.services.promptSalt(m.CacheOwner(c.limits.key), m, up)
	}
	return to
}

// learnNeededChange stores which changes the engine needs, so that later requests to the engine are
// changed before they are sent.
func (c *Call) learnNeededChange() {
	changed, target := c.attemptState.pendingChanges, c.attempt.Target()
	if changed == (endpoint.RejectedParts{}) || target == nil {
		return
	}
	c.attemptState.pendingChanges = endpoint.RejectedParts{}
	if !c.services.refusals.addRefusal(refusalKey{target.Upstream.ID(), target.Served}, changed, time.Now()) {
		return
	}
	text := "an engine refuses a word of the reasoning effort, which is left out for an hour: " +
		"list the words that it takes in the model's supported_reasoning_efforts"
	if changed.AdjacentTurns {
		text = "an engine refuses turns of one role in a row, which are joined for an hour: " +
			"write adjacent_turns: joined in a profile of its own (engines)"
	}
	c.services.Log.Info(text,
		zap.String("model", c.config.model.Config.ID), zap.String("upstream", target.Upstream.Label()))
}

// engineRefusals stores which parts of requests each engine rejects for each model. Entries expire,
// because an operator may fix the template. Multiple goroutines may use an engineRefusals.
type engineRefusals struct {
	mu      sync.Mutex
	entries atomic.Pointer[map[refusalKey]rejectedPartsEntry] // copied on write
}

type refusalKey struct {
	upstream upstreams.ID
	served   string
}

type rejectedPartsEntry struct {
	refused   endpoint.RejectedParts
	expiresAt time.Time
}

// refusalTTL is how long a refusal is stored. Learning the refusal again costs one request.
const refusalTTL = time.Hour

// lookupRejectedParts returns the parts of a request that an engine is known to reject for a model.
// If no refusals are known at all, lookupRejectedParts costs one atomic load.
func (r *engineRefusals) lookupRejectedParts(key refusalKey, now time.Time) endpoint.RejectedParts {
	known := r.entries.Load()
	if known == nil {
		return endpoint.RejectedParts{}
	}
	if f, ok := (*known)[key]; ok && now.Before(f.expiresAt) {
		return f.refused
	}
	return endpoint.RejectedParts{}
}

func (r *engineRefusals) KnownRejections(up upstreams.ID, served string, now time.Time) endpoint.RejectedParts {
	return r.lookupRejectedParts(refusalKey{up, served}, now)
}

func (*engineRefusals) ChangeAfter(why *failure.Failure, sent endpoint.SentParts) (limit int, refused endpoint.RejectedParts, ok bool) {
	c, ok := chooseRequestChange(why, sent)
	return c.limit, c.refused, ok
}

func (r *engineRefusals) LearnRejection(up upstreams.ID, served string, refused endpoint.RejectedParts, now time.Time) {
	r.addRefusal(refusalKey{up, served}, refused, now)
}

// addRefusal stores a refusal and reports whether it is new.
func (r *engineRefusals) addRefusal(key refusalKey, refused endpoint.RejectedParts, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := map[refusalKey]rejectedPartsEntry{}
	if known := r.entries.Load(); known != nil {
		for k, f := range *known {
			if now.Before(f.expiresAt) {
				next[k] = f
			}
		}
	}
	before := next[key].refused
	next[key] = rejectedPartsEntry{before.Union(refused), now.Add(refusalTTL)}
	r.entries.Store(&next)
	return next[key].refused != before
}
