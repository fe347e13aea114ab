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
	Replies *limit.Memory
	Calls   *observe.Calls
	Formats *endpoint.Formats
	Changes Changes
	// Salt returns the salt that separates an owner's prompts from others in an engine's cache.
	Salt func(owner string, m *snapshot.Model, u *upstreams.Upstream) chat.Salt
}

// Shadows manages the running copies of calls. It implements participant.Feature.
type Shadows struct {
	o Options

	mu      sync.Mutex
	running map[*shadow]struct{}
	ended   bool
}

// New returns a Shadows without running copies.
func New(o Options) *Shadows { return &Shadows{o: o, running: map[*shadow]struct{}{}} }

// Changes stores how requests must be changed so that the engines that rejected them accept them.
type Changes interface {
	// Known returns the parts of requests that an engine is known to reject for a model.
	Known(up upstreams.ID, served string, now time.Time) endpoint.Refused
	// After returns a change after which the engine may accept the rejected request. limit is the
	// new token limit (0 means unchanged), and refused contains the parts to remove from the
	// request. ok is false if no change helps.
	After(why *failure.Failure, sent endpoint.Sent) (limit int, refused endpoint.Refused, ok bool)
	// Learn records that an engine accepted a request after the parts in refused were removed from
	// it.
	Learn(up upstreams.ID, served string, refused endpoint.Refused, now time.Time)
}

type shadow struct {
	of       *Shadows
	model    *snapshot.Model
	snapshot *snapshot.Snapshot
	without  endpoint.Refused // parts of the copy that the engine has rejected
	slot     slot
	id       []byte
	tiers    uint8
	tokens   int
	implied  chat.Implied // members implied by the dialect of the call
	body     body.Body
	request  endpoint.Request
	memory   attempt.Memory
	abort    attempt.Abort
	attempt  attempt.Attempt
	record   observe.Record
	end      observe.ShadowEnd
}

// slot is the slot of a copy together with the salt for its engine.
type slot struct {
	lease  *upstreams.Lease
	target *routing.Target
	salt   chat.Salt
}

// Uses implements participant.Feature.
func (*Shadows) Uses(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Models, func(m snapshot.Model) bool { return m.Shadow != nil })
}

// Join implements participant.Feature. Join does not check the model, which a hook may still
// change; Sent does.
func (s *Shadows) Join(*participant.Call) participant.Participant { return copier{of: s} }

// copier copies one call after the call was sent to its first engine, so that the copy does not
// delay the call.
type copier struct {
	participant.Nothing
	of *Shadows
}

// Sent implements participant.Participant.
func (c copier) Sent(call *participant.Call) {
	if call.Model.Shadow != nil && call.Engines == 1 && !call.Fallback && call.Request.Chat() != nil {
		c.of.begin(call)
	}
}

// begin starts a copy of the call if the call belongs to the share to be copied and a slot is free.
func (s *Shadows) begin(c *participant.Call) {
	to, key := c.Model.Shadow, ""
	if c.Key != nil {
		key = c.Key.ID
	}
	number := routing.CallNumber(key, chat.Beginning(c.Request.Chat()))
	if !routing.InShare(to.Route, number, c.Model.Config.Shadow.Share) {
		return
	}
	now := time.Now()
	p := &shadow{
		of: s, model: to, snapshot: c.Snapshot, tiers: c.Tiers, tokens: c.Tokens,
		id: append([]byte(nil), c.RequestID...), implied: c.Request.Chat().Implied,
		request: endpoint.ChatCopy(c.Endpoint.Dialect), memory: attempt.Memory{Budget: s.o.Replies},
		record: observe.Record{Model: c.Model.Config.ID, Start: now}, end: observe.ShadowFailed,
	}
	if p.refused(c, number, now) {
		p.count(now)
		return
	}
	if !p.body.Copy(c.Body) {
		p.end = observe.ShadowNoMemory
		p.finish()
		return
	}
	if !s.add(p) {
		p.end = observe.ShadowDrained
		p.finish()
		return
	}
	c.Abort.Shadow(&p.abort)
	go s.o.Guard.Once(guard.Shadow, p.run)
}

// refused decides whether the call is copied. If it is not copied, refused records why and returns
// true. Otherwise, it has acquired a slot for the copy and returns false.
func (p *shadow) refused(c *participant.Call, number uint64, now time.Time) bool {
	switch {
	case !routing.Open(p.model.Route, c.Tiers):
		p.end = observe.ShadowForbidden
	case !p.acquire(c, number, now):
		p.end = observe.ShadowNoSlot
	default:
		return false
	}
	return true
}

// acquire acquires a slot that is not part of the model's reserve, at an upstream that is healthy
// and less than half busy.
func (p *shadow) acquire(c *participant.Call, number uint64, now time.Time) bool {
	if p.model.Crowded() {
		return false
	}
	route, owner := p.model.Route, p.model.CacheOwner(c.Key)
	q := routing.Query{
		Pool: c.Pool, Tokens: c.Tokens, Tiers: c.Tiers, Arms: routing.ArmsOf(route, number, c.Tiers),
		UpOnly: true, Reserve: p.model.Config.Reserve, Rank: config.MaxClasses, Now: now, Rand: rand.Uint64(),
	}
	targets := route.Targets()
	for i := range targets {
		if u := targets[i].Upstream; !idles(u, c.Pool, now) || u.Breaker.Position(now) != upstreams.BreakerClosed {
			q.Exclude = append(q.Exclude, u.ID())
		}
	}
	q.Exclude = route.AppendTooShort(q.Exclude, c.Tokens)
	if route.WantsPrefix() {
		tools, messages := c.Request.Prefix()
		q.Prefix = routing.HashBlocks(nil, routing.Seed(p.model.Config.ID, owner, tools), messages)
		q.Text = len(messages)
	}
	lease, target, err := route.Acquire(&q)
	if err != nil {
		return false
	}
	p.slot = slot{lease, target, p.of.o.Salt(owner, p.model, lease.Upstream())}
	return true
}

// idles reports whether an upstream is up and less than half of its slots are in use. The load
// includes what is known about the engine's other clients.
func idles(u *upstreams.Upstream, p upstreams.Pool, now time.Time) bool {
	var load upstreams.Load
	u.ReadLoad(&load, p, upstreams.At(now))
	return u.State() == upstreams.StateUp && 2*(load.Active+load.Others) < load.Limit
}

// add adds a running copy. It returns false if the edge is draining.
func (s *Shadows) add(p *shadow) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return false
	}
	s.running[p] = struct{}{}
	return true
}

func (s *Shadows) remove(p *shadow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, p)
}

// Running returns the number of running copies.
func (s *Shadows) Running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.running)
}

// End cancels all copies and prevents further copies.
func (s *Shadows) End() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for p := range s.running {
		p.abort.End(failure.ErrDrained)
	}
}
