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
	"penstock/upstreams"
)

// slot is a slot at an engine.
type slot struct {
	lease  *upstreams.Lease // nil if there is none
	target *routing.Target
}

func acquireSlot(r *routing.Route, q *routing.Query) (s slot, err error) {
	s.lease, s.target, err = r.Acquire(q)
	return s, err
}

// acquire picks a target and acquires a slot. If no slot is free and the model has a queue, it
// waits in the queue. If a reload has retired all targets in the call's snapshot, acquire tries the
// newest snapshot, so that a reload does not reject calls. If the wait must be interrupted, acquire
// returns errWaiting, and the next call of acquire resumes the wait.
func (c *Call) acquire(now time.Time) (slot, error) {
	if next := c.tries.takeNext(); next.lease != nil {
		return next, nil
	}
	if c.tries.wait != nil {
		return c.awaitSlot()
	}
	m, q := c.config.model, c.query(now)
	// Otherwise, a fallback may answer.
	if m.Queue == nil && c.tries.targets == 0 && len(m.Config.Fallback) == 0 {
		q.RetryAfter = failure.FullRetryAfter(m, q.Pool)
	}
	if m.Crowded() && !q.Overflow {
		return c.waitForSlot(&q, m.Route.Full(&q))
	}
	s, err := acquireSlot(m.Route, &q)
	if err == nil {
		return s, nil
	}
	var full *routing.FullError
	switch {
	case errors.As(err, &full):
		return c.waitForSlot(&q, err)
	case errors.Is(err, routing.ErrStarting):
		m.Route.Wake(&q)
		return c.waitForSlot(&q, err)
	case !errors.Is(err, routing.ErrNoUpstream), !c.updateSnapshot():
		return slot{}, err
	}
	return c.acquire(now)
}

// updateSnapshot moves the call to the newest snapshot, in which the call's model may have other
// targets. It returns false if the call already uses the newest snapshot, or if that snapshot does
// not contain the model.
func (c *Call) updateSnapshot() bool {
	if !c.config.update(c.shared.Current()) {
		return false
	}
	c.tries.excluded = c.config.model.Route.AppendTooShort(c.tries.excluded, c.tokens.prompt)
	return true
}

func (c *Call) query(now time.Time) (q routing.Query) {
	t, m := &c.tries, c.config.model
	q.Prefix = t.conversation.prefixBlocks(m, c.rates.key, c.request)
	q.Pool, q.Key, q.Weight, q.Tokens = t.pool, c.record.Key, c.rates.key.Share(), c.tokens.prompt
	q.Text, q.Exclude, q.Needs = t.conversation.text, t.excluded, t.needs
	q.Now, q.Rand = now, rand.Uint64()
	q.Busy = t.failure != nil && t.failure.Outcome == upstreams.OutcomeRefused
	q.Tiers, q.Overflow = c.tiers(), t.overflow || m.Queue == nil
	q.Arms = c.arms()
	if m.Route.WantsPrefix() {
		s := c.session()
		q.Session, q.CacheKey = s.ID, s.CacheKey
		if t.why == nil {
			t.why = new(why)
		}
		q.Why = &t.why.pick
	} else if t.why != nil {
		t.why.pick.Reason = "" // may be set from an earlier attempt or model
	}
	if t.rank > 0 {
		q.Rank, q.Reserve = t.rank, m.Config.Reserve
	}
	return q
}

// tiers returns the external tiers that the key may use.
func (c *Call) tiers() uint8 {
	if key := c.rates.key; key != nil && key.Tiers != 0 {
		return c.config.snapshot.Keys.Tiers(key)
	}
	return 0
}

// arms returns the arms that the call uses. All calls of a conversation use the same arms. Calls
// outside a conversation use the arms of their key.
func (c *Call) arms() routing.Arms {
	route := c.config.model.Route
	if !routing.SharesCalls(route) {
		return 0
	}
	return routing.ArmsOf(route, c.tries.conversation.callNumber(c.record.Key, c.request), c.tiers())
}

// Leave implements attempt.Mover. It acquires a slot at another engine before the call leaves its
// current engine. If no slot is free, the call does not queue but stays at its engine, which may
// still continue.
func (c *Call) Leave() bool {
	now, t := time.Now(), &c.tries
	continued := t.mustContinue()
	switch {
	case c.record.Committed && !c.body.Held(): // the request was released
		return false
	case continued:
		if !c.mayResume(now) {
			return false
		}
	case t.sends.Moves > 0, c.config.snapshot.Config.Retry.Attempts < 2, c.request.Spent():
		return false
	}
	if upstreams.HandsOver(t.upstream) {
		c.updateSnapshot()
	}
	q, route := c.query(now), c.config.model.Route
	q.UpOnly = true
	q.Exclude = append(slices.Clip(q.Exclude), t.upstream.ID())
	if continued {
		q.Exclude = appendCannotContinue(q.Exclude, route.Targets(), t.recording.HasReasoning())
	}
	s, err := acquireSlot(route, &q)
	if err != nil {
		return false
	}
	t.next = s
	return true
}

// slotWait is the wait of a call in the queue of its model. A keep-alive interrupts the wait, but
// the call does not lose its position in the queue.
type slotWait struct {
	queued   *queue.Waiting
	query    routing.Query
	done     <-chan struct{} // closed when the call is canceled
	deadline time.Time
	stream   endpoint.Stream // used for keep-alives during a long wait; nil if none are sent
	// failure of the engine whose stream the call waits to resume; nil if it does not resume one
	lost *failure.Failure
}

var errWaiting = errors.New("the call waits for a slot")

// waitForSlot joins the model's queue, if there is one, and waits for a slot. queue.Queues wakes
// the call when an upstream changes. It returns the same results as acquire.
func (c *Call) waitForSlot(q *routing.Query, full error) (slot, error) {
	m := c.config.model
	if m.Queue == nil || q.Overflow {
		return slot{}, full
	}
	done, ok := c.abort.Wait()
	if !ok {
		return slot{}, full // the loop reports why the call was canceled
	}
	need := queue.Need{
		Pool: q.Pool, Tried: q.Exclude, Tiers: q.Tiers, Arms: q.Arms, Needs: q.Needs, Rank: q.Rank, Reserve: q.Reserve,
		Key: q.Key, Weight: q.Weight, Session: c.session().ID, Expected: turns.Weight(q.Tokens, 0),
	}
	if q.Rank > 0 {
		need.Ages = time.Now().Add(m.Config.Queue.Wait.D() / 2)
	}
	queued, err := m.Queue.Join(&need)
	if err != nil {
		return c.overflow(q, full)
	}
	q.Now = time.Now()
	w := &slotWait{queued: queued, query: *q, done: done, deadline: q.Now.Add(m.Config.Queue.Wait.D())}
	if c.relay == nil && c.record.Stream && !c.ep.Form {
		if stream := c.request.Stream(c.callInfo()); stream.InBand() {
			w.stream = stream
		}
	}
	c.tries.wait = w
	return c.awaitSlot()
}

func (c *Call) awaitSlot() (s slot, err error) {
	w, begun := c.tries.wait, time.Now()
	c.setPhase(&phaseQueued)
	waited := w.queued.Await(w.done, c.nextKeepalive(begun), w.deadline, func() bool {
		w.query.Now = time.Now()
		if c.updateSnapshot() {
			w.query.Tiers, w.query.Arms, w.query.Exclude = c.tiers(), c.arms(), c.tries.excluded
		}
		route := c.config.model.Route
		s, err = acquireSlot(route, &w.query)
		if errors.Is(err, routing.ErrStarting) {
			route.Wake(&w.query)
			return false
		}
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	c.record.Queue += time.Since(begun)
	if errors.Is(waited, queue.ErrNotYet) {
		return slot{}, errWaiting
	}
	c.tries.leaveQueue()
	if waited == nil {
		c.setPhase(&phaseWaiting)
		return s, err
	}
	w.query.Now = time.Now()
	full := c.config.model.Route.Full(&w.query)
	if errors.Is(waited, queue.ErrLeft) {
		return slot{}, full
	}
	return c.overflow(&w.query, full)
}

// overflow tries the tiers that accept calls after the queue was full or a wait timed out. The call
// does not wait again.
func (c *Call) overflow(q *routing.Query, full error) (slot, error) {
	route := c.config.model.Route
	if route.Tiers == nil {
		return slot{}, full
	}
	q.Overflow, c.tries.overflow = true, true
	s, err := acquireSlot(route, q)
	if err == nil {
		c.setPhase(&phaseWaiting)
	}
	return s, err
}

// nextKeepalive returns when the client of a waiting call needs the next keep-alive.
func (c *Call) nextKeepalive(now time.Time) time.Time {
	w, every := c.tries.wait, c.config.snapshot.Config.Stream.CommitAfter.D()
	switch r := c.relay; {
	case r != nil && r.silence > 0:
		return r.patience().Std()
	case r != nil, w.stream == nil, every <= 0:
		return w.deadline
	}
	return now.Add(every)
}

// otherTarget reports whether another target has room for the call.
func (c *Call) otherTarget() bool {
	t, route := &c.tries, c.config.model.Route
	q := routing.Query{
		Pool: t.pool, Key: c.record.Key, Tiers: c.tiers(), Needs: t.needs, Now: time.Now(),
		Exclude: append(slices.Clip(t.excluded), t.upstream.ID()),
	}
	hasRoom := func(to routing.Target) bool { return route.Room(to.Upstream, &q).Slots > 0 }
	return slices.ContainsFunc(route.Targets(), hasRoom)
}

// mayLeaveTier reports whether a later tier or a fallback model may answer.
func (c *Call) mayLeaveTier() bool {
	if c.fallbackLeft() {
		return true
	}
	at, tiers := c.attempt.Target().Tier, c.tiers()
	return slices.ContainsFunc(c.config.model.Route.Targets(), func(t routing.Target) bool {
		return t.Tier > at && t.OpenTo(tiers) && t.Upstream.State() != upstreams.StateDown && !slices.Contains(c.tries.excluded, t.Upstream.ID())
	})
}

// leaveTier excludes the engines in the current tier and in earlier tiers. The call will not queue
// for a later tier.
func (c *Call) leaveTier() {
	at := c.attempt.Target().Tier
	targets := c.config.model.Route.Targets()
	for i := range targets {
		if targets[i].Tier <= at {
			c.tries.exclude(targets[i].Upstream)
		}
	}
	c.tries.overflow = true
}
