package call

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/routing/turns"
	"penstock/translate/chat"
	"penstock/upstreams"
)

type picker struct{ call *Call }

// acquire picks a target and acquires a slot. If no slot is free and the model has a queue, it
// waits in the queue. If a reload has retired all targets in the call's snapshot, acquire tries the
// newest snapshot, so that a reload does not reject calls. If the wait must be interrupted, acquire
// returns errWaiting, and the next call of acquire resumes the wait.
func (p picker) acquire(now time.Time) (*upstreams.Lease, *routing.Target, error) {
	if n := p.call.tries.takeNext(); n.lease != nil {
		p.call.tries.takeTurn(n.turn)
		return n.lease, n.target, nil
	}
	if p.call.tries.wait != nil {
		return p.await()
	}
	m := p.call.config.model
	q := p.query(now)
	// Otherwise, a fallback may answer.
	if m.Queue == nil && p.call.tries.targets == 0 && len(m.Config.Fallback) == 0 {
		q.RetryAfter = failure.FullRetryAfter(m, q.Pool)
	}
	if m.Crowded() && !q.Overflow {
		return p.waitForSlot(&q, m.Route.Full(&q))
	}
	lease, target, err := m.Route.Acquire(&q)
	if err == nil {
		p.call.tries.takeTurn(routing.BeginTurn(m.Route, &q, lease))
		return lease, target, nil
	}
	var full *routing.FullError
	switch {
	case errors.As(err, &full):
		return p.waitForSlot(&q, err)
	case errors.Is(err, routing.ErrStarting):
		m.Route.Wake(&q)
		return p.waitForSlot(&q, err)
	case !errors.Is(err, routing.ErrNoUpstream), !p.follow():
		return nil, nil, err
	}
	return p.acquire(now)
}

// follow moves the call to the newest snapshot, in which the call's model may have other targets.
// It returns false if the call already uses the newest snapshot, or if that snapshot does not
// contain the model.
func (p picker) follow() bool {
	c := p.call
	if !c.config.follow(c.shared.Current()) {
		return false
	}
	c.tries.excluded = c.config.model.Route.AppendTooShort(c.tries.excluded, c.tokens.prompt)
	return true
}

func (p picker) query(now time.Time) (q routing.Query) {
	c, t := p.call, &p.call.tries
	q.Prefix = p.prefixBlocks()
	q.Pool, q.Key, q.Weight, q.Tokens = t.pool, c.record.Key, c.rates.key.Share(), c.tokens.prompt
	q.Text, q.Exclude, q.Needs = t.talk.text, t.excluded, t.needs
	q.Now, q.Rand = now, rand.Uint64()
	q.Busy = t.failure != nil && t.failure.Outcome == upstreams.OutcomeRefused
	q.Tiers, q.Overflow = p.tiers(), t.overflow || c.config.model.Queue == nil
	q.Arms = p.arms()
	if route := p.call.config.model.Route; route.WantsPrefix() {
		s := p.call.session()
		q.Session, q.CacheKey = s.ID, s.CacheKey
		if p.call.tries.why == nil {
			p.call.tries.why = new(why)
		}
		q.Why = &p.call.tries.why.pick
	} else if p.call.tries.why != nil {
		p.call.tries.why.pick.Reason = "" // may be set from an earlier attempt or model
	}
	if rank := p.call.tries.rank; rank > 0 {
		q.Rank, q.Reserve = rank, p.call.config.model.Config.Reserve
	}
	return q
}

// arms returns the arms that the call uses. All calls of a conversation use the same arms. Calls
// outside a conversation use the arms of their key.
func (p picker) arms() routing.Arms {
	c := p.call
	route := c.config.model.Route
	if !routing.SharesCalls(route) {
		return 0
	}
	if c.tries.talk.number == 0 {
		begin := chat.Beginning(c.request.Chat())
		if c.tries.talk.number = routing.CallNumber(c.record.Key, begin); c.record.Key == "" && begin == nil {
			c.tries.talk.number = rand.Uint64()
		}
	}
	return routing.ArmsOf(route, c.tries.talk.number, p.tiers())
}

func (p picker) tiers() uint8 {
	if key := p.call.rates.key; key != nil && key.Tiers != 0 {
		return p.call.config.snapshot.Keys.Tiers(key)
	}
	return 0
}

// Leave implements attempt.Mover. It acquires a slot at another engine before the call leaves its
// current engine. If no slot is free, the call does not queue but stays at its engine, which may
// still continue.
func (p picker) Leave() bool {
	c, now := p.call, time.Now()
	switch {
	case c.record.Committed && !c.body.Held(): // the request was released
		return false
	case c.tries.mustContinue():
		if !c.mayResume(now) {
			return false
		}
	case c.tries.sends.Moves > 0, c.config.snapshot.Config.Retry.Attempts < 2, c.request.Spent():
		return false
	}
	if upstreams.HandsOver(c.tries.upstream) {
		p.follow()
	}
	q := p.query(now)
	q.UpOnly = true
	q.Exclude = append(q.Exclude[:len(q.Exclude):len(q.Exclude)], c.tries.upstream.ID())
	if c.tries.mustContinue() {
		q.Exclude = appendCannotContinue(q.Exclude, c.config.model.Route.Targets(), c.tries.recording.HasReasoning())
	}
	lease, target, err := c.config.model.Route.Acquire(&q)
	if err != nil {
		return false
	}
	c.tries.next = place{lease, target, routing.BeginTurn(c.config.model.Route, &q, lease)}
	return true
}

// slotWait is the wait of a call in the queue of its model. A keep-alive interrupts the wait, but
// the call does not lose its position in the queue.
type slotWait struct {
	place    *queue.Waiting
	query    routing.Query
	left     <-chan struct{}
	deadline time.Time
	stream   endpoint.Stream // used for keep-alives during a long wait; nil if none are sent
}

var errWaiting = errors.New("the call waits for a slot")

// waitForSlot joins the model's queue, if there is one, and waits for a slot. queue.Queues wakes
// the call when an upstream changes. It returns the same results as acquire.
func (p picker) waitForSlot(q *routing.Query, full error) (*upstreams.Lease, *routing.Target, error) {
	c, m := p.call, p.call.config.model
	if m.Queue == nil || q.Overflow {
		return nil, nil, full
	}
	left, ok := c.abort.Wait()
	if !ok {
		return nil, nil, full // the loop reports why the call was canceled
	}
	need := queue.Need{
		Pool: q.Pool, Tried: q.Exclude, Tiers: q.Tiers, Arms: q.Arms, Needs: q.Needs, Rank: q.Rank, Reserve: q.Reserve,
		Key: q.Key, Weight: q.Weight, Session: c.session().ID, Expected: turns.Weight(q.Tokens, 0),
	}
	if q.Rank > 0 {
		need.Ages = time.Now().Add(m.Config.Queue.Wait.D() / 2)
	}
	place, err := m.Queue.Join(&need)
	if err != nil {
		return p.overflow(q, full)
	}
	q.Now = time.Now()
	c.tries.wait = &slotWait{
		place: place, query: *q, left: left, deadline: q.Now.Add(m.Config.Queue.Wait.D()),
	}
	if c.relay == nil && c.record.Stream && !c.ep.Form {
		if stream := c.request.Stream(c.answerOf()); stream.InBand() {
			c.tries.wait.stream = stream
		}
	}
	return p.await()
}

func (p picker) await() (lease *upstreams.Lease, target *routing.Target, err error) {
	c, w := p.call, p.call.tries.wait
	begun := time.Now()
	c.setPhase(&phaseQueued)
	waited := w.place.Await(w.left, p.patience(begun), w.deadline, func() bool {
		w.query.Now = time.Now()
		if p.follow() {
			w.query.Tiers, w.query.Arms, w.query.Exclude = p.tiers(), p.arms(), c.tries.excluded
		}
		route := c.config.model.Route
		lease, target, err = route.Acquire(&w.query)
		if errors.Is(err, routing.ErrStarting) {
			route.Wake(&w.query)
			return false
		}
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	c.record.Queue += time.Since(begun)
	if errors.Is(waited, queue.ErrNotYet) {
		return nil, nil, errWaiting
	}
	p.leaveQueue()
	if waited == nil {
		if err == nil {
			c.tries.takeTurn(routing.BeginTurn(c.config.model.Route, &w.query, lease))
		}
		c.setPhase(&phaseWaiting)
		return lease, target, err
	}
	w.query.Now = time.Now()
	full := c.config.model.Route.Full(&w.query)
	if errors.Is(waited, queue.ErrLeft) {
		return nil, nil, full
	}
	return p.overflow(&w.query, full)
}

// overflow tries the tiers that accept calls after the queue was full or a wait timed out. The call
// does not wait again.
func (p picker) overflow(q *routing.Query, full error) (*upstreams.Lease, *routing.Target, error) {
	c := p.call
	route := c.config.model.Route
	if route.Tiers == nil {
		return nil, nil, full
	}
	q.Overflow, c.tries.overflow = true, true
	lease, target, err := route.Acquire(q)
	if err == nil {
		c.tries.takeTurn(routing.BeginTurn(route, q, lease))
		c.setPhase(&phaseWaiting)
	}
	return lease, target, err
}

// patience returns when the client of a waiting call needs the next keep-alive.
func (p picker) patience(now time.Time) time.Time {
	c, w := p.call, p.call.tries.wait
	clocks := &c.config.snapshot.Config.Stream
	every := clocks.CommitAfter.D()
	switch r := c.relay; {
	case r == nil && w.stream == nil, r != nil && (r.form != formStream || r.stream.Started()):
		return w.deadline
	case r != nil:
		every = clocks.Keepalive.D()
	}
	if every <= 0 {
		return w.deadline
	}
	return now.Add(every)
}

func (p picker) leaveQueue() {
	if w := p.call.tries.wait; w != nil {
		p.call.tries.wait = nil
		w.place.Leave()
	}
}

// prefixBlocks hashes the beginning of the prompt for a route with prefix affinity.
func (p picker) prefixBlocks() []uint64 {
	m, t := p.call.config.model, &p.call.tries
	if !m.Route.WantsPrefix() {
		return nil
	}
	if len(t.talk.prefix) == 0 {
		tools, messages := p.call.request.Prefix()
		if messages == nil {
			return nil
		}
		seed := routing.Seed(m.Config.ID, m.CacheOwner(p.call.rates.key), tools)
		t.talk.prefix, t.talk.text = routing.HashBlocks(t.talk.prefix, seed, messages), len(messages)
	}
	return t.talk.prefix
}

func (p picker) otherTarget() bool {
	t, route := &p.call.tries, p.call.config.model.Route
	q := routing.Query{
		Pool: t.pool, Key: p.call.record.Key, Tiers: p.tiers(), Needs: t.needs, Now: time.Now(),
		Exclude: append(t.excluded[:len(t.excluded):len(t.excluded)], t.upstream.ID()),
	}
	hasRoom := func(to routing.Target) bool { return route.Room(to.Upstream, &q).Slots > 0 }
	return slices.ContainsFunc(route.Targets(), hasRoom)
}

func (p picker) mayLeaveTier() bool {
	c := p.call
	if (fallbacks{c}).left() {
		return true
	}
	at, tiers := c.attempt.Target().Tier, p.tiers()
	return slices.ContainsFunc(c.config.model.Route.Targets(), func(t routing.Target) bool {
		return t.Tier > at && t.OpenTo(tiers) && t.Upstream.State() != upstreams.StateDown && !slices.Contains(c.tries.excluded, t.Upstream.ID())
	})
}

// leaveTier excludes the engines in the current tier and in earlier tiers. The call will not queue
// for a later tier.
func (p picker) leaveTier() {
	c := p.call
	at := c.attempt.Target().Tier
	targets := c.config.model.Route.Targets()
	for i := range targets {
		if targets[i].Tier <= at {
			c.tries.exclude(targets[i].Upstream)
		}
	}
	c.tries.overflow = true
}
