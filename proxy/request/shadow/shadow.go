package shadow

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"penstock/config"
	"penstock/proxy/access/limit"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/participant"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/guard"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Options configure Shadows.
type Options struct {
	Guard   *guard.Guard
	Replies *limit.MemoryBudget
	Calls   *observe.Calls
	Formats *endpoint.RequestFormatCache
	Changes RequestChangeStore
	// Salt returns the salt that separates an owner's prompts from those of other owners in an
	// engine's cache.
	Salt func(owner string, m *snapshot.Model, u *upstreams.Upstream) chat.CacheSalt
}

// Shadows manages the running copies of calls. It implements participant.Feature.
type Shadows struct {
	o Options

	mu      sync.Mutex
	running map[*runningCopy]struct{}
	stopped bool
}

// New returns a Shadows without running copies.
func New(o Options) *Shadows { return &Shadows{o: o, running: map[*runningCopy]struct{}{}} }

// RequestChangeStore stores how rejected requests must be changed so that engines accept them.
type RequestChangeStore interface {
	// KnownRejections returns the parts of requests that an engine is known to reject for a model.
	KnownRejections(up upstreams.ID, served string, now time.Time) endpoint.RejectedParts
	// ChangeAfter returns a change after which the engine may accept the rejected request. limit is
	// the new token limit (0 means unchanged), and refused contains the parts to remove from the
	// request. ok is false if no change helps.
	ChangeAfter(why *failure.Failure, sent endpoint.SentParts) (limit int, refused endpoint.RejectedParts, ok bool)
	// LearnRejection records that an engine accepted a request after the parts in refused were
	// removed from it.
	LearnRejection(up upstreams.ID, served string, refused endpoint.RejectedParts, now time.Time)
}

type runningCopy struct {
	shadows      *Shadows
	model        *snapshot.Model
	snapshot     *snapshot.Snapshot
	removedParts endpoint.RejectedParts // parts that were removed because the engine had rejected them
	slot         copySlot
	id           []byte
	tiers        routing.TierSet
	tokens       int
	implied      chat.ImpliedProperties // members implied by the dialect of the call
	body         body.Body
	request      endpoint.Request
	memory       attempt.ReplyMemory
	abort        attempt.Canceler
	attempt      attempt.Attempt
	record       observe.Record
	outcome      observe.ShadowOutcome
}

// copySlot is the engine slot of a copy together with the salt for the engine.
type copySlot struct {
	lease  *upstreams.Lease
	target *routing.Target
	salt   chat.CacheSalt
}

// IsEnabled implements participant.Feature.
func (*Shadows) IsEnabled(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Models, func(m snapshot.Model) bool { return m.Shadow != nil })
}

// Join implements participant.Feature. It does not check the model, because a hook may still change
// the model. OnSent checks it.
func (s *Shadows) Join(*participant.Call) participant.Participant { return callCopier{shadows: s} }

// callCopier copies one call after the call was sent to its first engine, so that the copy does not
// delay the call.
type callCopier struct {
	participant.NoopParticipant
	shadows *Shadows
}

// OnSent implements participant.Participant.
func (c callCopier) OnSent(call *participant.Call) {
	if call.Model.Shadow != nil && call.Engines == 1 && !call.Fallback && call.Request.Chat() != nil {
		c.shadows.startCopy(call)
	}
}

// startCopy starts a copy of the call if the call's conversation is selected for copying and a slot
// is free.
func (s *Shadows) startCopy(c *participant.Call) {
	to, key := c.Model.Shadow, ""
	if c.Key != nil {
		key = c.Key.ID
	}
	number := routing.ConversationHash(key, chat.ConversationPrefix(c.Request.Chat()))
	if !routing.IsCallInSample(to.Route, number, c.Model.Config.Shadow.Share) {
		return
	}
	now := time.Now()
	p := &runningCopy{
		shadows: s, model: to, snapshot: c.Snapshot, tiers: c.Tiers, tokens: c.Tokens,
		id: append([]byte(nil), c.RequestID...), implied: c.Request.Chat().ImpliedProperties,
		request: endpoint.NewChatCopyRequest(c.Endpoint.Dialect), memory: attempt.ReplyMemory{Budget: s.o.Replies},
		record: observe.Record{Model: c.Model.Config.ID, Start: now}, outcome: observe.ShadowFailed,
	}
	if p.rejectOrAcquireSlot(c, number, now) {
		p.countOutcome(now)
		return
	}
	if !p.body.CopyFrom(c.Body) {
		p.outcome = observe.ShadowNoMemory
		p.finish()
		return
	}
	if !s.add(p) {
		p.outcome = observe.ShadowDrained
		p.finish()
		return
	}
	c.Abort.AttachShadow(&p.abort)
	go s.o.Guard.RunWithRecover(guard.PlaceShadow, p.run)
}

// rejectOrAcquireSlot decides whether the call is copied. If the call is not copied,
// rejectOrAcquireSlot records why and returns true. Otherwise, it acquires a slot for the copy and
// returns false.
func (p *runningCopy) rejectOrAcquireSlot(c *participant.Call, number uint64, now time.Time) bool {
	switch {
	case !routing.IsOpenToTiers(p.model.Route, c.Tiers):
		p.outcome = observe.ShadowForbidden
	case !p.acquire(c, number, now):
		p.outcome = observe.ShadowNoSlot
	default:
		return false
	}
	return true
}

// acquire acquires a slot that is not part of the model's reserve. The slot's upstream must be
// healthy and have less than half of its slots in use.
func (p *runningCopy) acquire(c *participant.Call, number uint64, now time.Time) bool {
	if p.model.HasWaitingCalls() {
		return false
	}
	route, owner := p.model.Route, p.model.CacheOwner(c.Key)
	q := routing.Query{
		Pool: c.Pool, Tokens: c.Tokens, Tiers: c.Tiers, Arms: routing.SelectArms(route, number, c.Tiers),
		UpOnly: true, Reserve: p.model.Config.Reserve, Rank: config.MaxClasses, Now: now, Rand: rand.Uint64(),
	}
	targets := route.Targets()
	for i := range targets {
		if u := targets[i].Upstream; !isUnderused(u, c.Pool, now) || u.Breaker.StateAt(now) != upstreams.BreakerClosed {
			q.Exclude = append(q.Exclude, u.ID())
		}
	}
	q.Exclude = route.AppendTooShortUpstreams(q.Exclude, c.Tokens)
	if route.UsesPrefixIndex() {
		tools, messages := c.Request.PromptPrefix()
		q.Prefix = routing.HashBlocks(nil, routing.PromptSeed(p.model.Config.ID, owner, tools), messages)
		q.Text = len(messages)
	}
	lease, target, err := route.Acquire(&q)
	if err != nil {
		return false
	}
	p.slot = copySlot{lease, target, p.shadows.o.Salt(owner, p.model, lease.Upstream())}
	return true
}

// isUnderused reports whether an upstream is up and less than half of its slots are in use. The
// load includes the known load from other clients of the engine.
func isUnderused(u *upstreams.Upstream, p upstreams.SlotPool, now time.Time) bool {
	var load upstreams.Load
	u.ReadLoad(&load, p, upstreams.MomentOf(now))
	return u.State() == upstreams.StateUp && 2*(load.Active+load.Others) < load.Limit
}

// add adds a running copy. It returns false if the edge is draining.
func (s *Shadows) add(p *runningCopy) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.running[p] = struct{}{}
	return true
}

func (s *Shadows) remove(p *runningCopy) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
}

// RunningCount returns the number of running copies.
func (s *Shadows) RunningCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// CancelAll cancels all copies and prevents new ones.
func (s *Shadows) CancelAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for p := range s.running {
		p.abort.Cancel(failure.ErrShuttingDown)
	}
}
