package call

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/retry"
	"penstock/routing"
	"penstock/routing/queue"
	"penstock/routing/turns"
	"penstock/upstreams"
)

type engineSlot struct {
	lease  *upstreams.Lease // nil if there is none
	target *routing.Target
}

// callSlots are the slot that a call has acquired in advance, and the one for which it waits.
type callSlots struct {
	nextSlot engineSlot // slot that the call acquired before it left its engine; empty if there is none
	slotWait *slotWait  // nil if the call is not waiting
	// When a call on a drained engine last tried to acquire a slot at another engine.
	triedMoveAt instant.Time
}

func (t *callSlots) takeReservedSlot() (s engineSlot) {
	s, t.nextSlot = t.nextSlot, s
	return s
}

func (t *callSlots) leaveQueue() {
	if w := t.slotWait; w != nil {
		t.slotWait = nil
		w.queueEntry.Leave()
	}
}

func acquireSlot(r *routing.Route, q *routing.Query) (s engineSlot, err error) {
	s.lease, s.target, err = r.Acquire(q)
	return s, err
}

// pickSlot picks a target and acquires a slot. If no slot is free and the model has a queue,
// pickSlot waits in the queue. If a reload has retired all targets in the call's snapshot, pickSlot
// tries the newest snapshot, so that a reload does not cause rejections. If the wait must be
// interrupted, pickSlot returns errWaitingForSlot, and the next call to pickSlot resumes the wait.
func (c *Call) pickSlot(now time.Time) (engineSlot, error) {
	if next := c.slots.takeReservedSlot(); next.lease != nil {
		return next, nil
	}
	if c.slots.slotWait != nil {
		return c.awaitSlot()
	}
	m, q := c.config.model, c.routingQuery(now)
	// A call to a model with a queue or a fallback may still be answered.
	if m.Queue == nil && c.attemptState.targetCount == 0 && len(m.Config.Fallback) == 0 {
		q.RetryAfter, q.RetryAfterIsMinimum = failure.PoolRetryAfter(m, q.Pool)
	}
	if m.HasWaitingCalls() && !q.Overflow {
		return c.joinSlotQueue(&q, m.Route.RefusalError(&q))
	}
	s, err := acquireSlot(m.Route, &q)
	if err == nil {
		return s, nil
	}
	var full *routing.FullError
	switch {
	case errors.As(err, &full):
		return c.joinSlotQueue(&q, err)
	case errors.Is(err, routing.ErrEngineStarting):
		m.Route.RequestWake(&q)
		return c.joinSlotQueue(&q, err)
	case !errors.Is(err, routing.ErrNoUpstream), !c.adoptNewestSnapshot():
		return engineSlot{}, err
	}
	return c.pickSlot(now)
}

// adoptNewestSnapshot moves the call to the newest snapshot, in which the call's model may have
// other targets. It returns false if the call already uses the newest snapshot, or if that snapshot
// does not contain the model.
func (c *Call) adoptNewestSnapshot() bool {
	if !c.config.adoptSnapshot(c.services.Current()) {
		return false
	}
	c.search.excluded = c.config.model.Route.AppendTooShortUpstreams(c.search.excluded, c.tokens.estimatedPrompt)
	return true
}

func (c *Call) routingQuery(now time.Time) (q routing.Query) {
	t, m := &c.search, c.config.model
	q.Prefix = t.conversation.prefixBlocks(m, c.limits.key, c.request)
	q.Pool, q.Key, q.Weight, q.Tokens = t.pool, c.record.Key, c.limits.key.TurnWeight(), c.tokens.estimatedPrompt
	q.Text, q.Exclude, q.Needs = t.conversation.prefixBytes, t.excluded, t.neededFeatures
	q.Now, q.Rand = now, rand.Uint64()
	first := c.attemptState.firstFailure
	q.Busy = first != nil && first.Outcome == upstreams.OutcomeRefused
	q.Tiers, q.Overflow = c.keyTiers(), t.usesOverflow || m.Queue == nil
	q.Arms = c.callArms()
	if m.Route.UsesPrefixIndex() {
		s := c.search.conversation.clientSession(c.request, &c.client)
		q.Session, q.CacheKey = s.ID, s.CacheKey
		if t.pickReason == nil {
			t.pickReason = new(pickExplanation)
		}
		q.Why = &t.pickReason.reason
	} else if t.pickReason != nil {
		t.pickReason.reason.Reason = "" // the reason may come from an earlier attempt or model
	}
	if t.classRank > 0 {
		q.Rank, q.Reserve = t.classRank, m.Config.Reserve
	}
	return q
}

// keyTiers returns the tiers that the key may use.
func (c *Call) keyTiers() routing.TierSet {
	if key := c.limits.key; key != nil && key.Tiers != 0 {
		return c.config.snapshot.Keys.KeyTiers(key)
	}
	return 0
}

// callArms returns the arms that the call uses. All calls of a conversation use the same arms.
// Calls outside a conversation use the arms of their key.
func (c *Call) callArms() routing.ArmSet {
	route := c.config.model.Route
	if !routing.HasArms(route) {
		return 0
	}
	return routing.SelectArms(route, c.search.conversation.armSelector(c.record.Key, c.request), c.keyTiers())
}

// AcquireOtherSlot implements attempt.CallMover. It acquires a slot at another engine before the
// call leaves its current engine. If no slot is free, the call does not queue but stays at its
// current engine, which may still answer.
func (c *Call) AcquireOtherSlot() bool {
	now, t := time.Now(), &c.attemptState
	state := c.retryState(failure.EngineStalled())
	step := retry.DecideStep(&state, &retry.Failure{Cause: retry.CauseMustLeaveEngine})
	continued := step == retry.StepResume || step == retry.StepFinish
	if !continued && step != retry.StepMove {
		return false
	}
	if upstreams.ShouldHandOverCalls(t.upstream) {
		c.adoptNewestSnapshot()
	}
	q, route := c.routingQuery(now), c.config.model.Route
	q.UpOnly = true
	q.Exclude = append(slices.Clip(q.Exclude), t.upstream.ID())
	if continued {
		q.Exclude = appendNonContinuingUpstreams(q.Exclude, route.Targets(), t.recording.HasReasoning())
	}
	s, err := acquireSlot(route, &q)
	if err != nil {
		return false
	}
	c.slots.nextSlot = s
	return true
}

// slotWait is the state of a call that is waiting in the queue of its model. A keep-alive
// interrupts the wait, but the call does not lose its position in the queue.
type slotWait struct {
	queueEntry      *queue.Entry
	query           routing.Query
	canceled        <-chan struct{} // closed when the call is canceled
	deadline        time.Time
	keepaliveStream endpoint.Stream // sends keep-alives during a long wait; nil if none are sent
	// failure of the engine whose stream the call is waiting to resume; nil if it does not resume a
	// stream
	lost *failure.Failure
}

var (
	errWaitingForSlot = errors.New("the call waits for a slot")
	errTotalTimeout   = errors.New("timeouts.total passed while the call waited for a slot")
)

// joinSlotQueue joins the model's queue, if the model has one, and waits for a slot. queue.Queues
// wakes the call when an upstream changes. joinSlotQueue returns the same results as pickSlot.
func (c *Call) joinSlotQueue(q *routing.Query, full error) (engineSlot, error) {
	m := c.config.model
	if m.Queue == nil || q.Overflow {
		return engineSlot{}, full
	}
	done, ok := c.abort.Done()
	if !ok {
		return engineSlot{}, full // the loop reports why the call was canceled
	}
	need := queue.WaitRequest{
		Pool: q.Pool, Excluded: q.Exclude, Tiers: q.Tiers, Arms: q.Arms, Needs: q.Needs, Rank: q.Rank, Reserve: q.Reserve,
		Key: q.Key, Weight: q.Weight, Session: c.search.conversation.clientSession(c.request, &c.client).ID, Expected: turns.ServiceUnits(q.Tokens, 0),
	}
	if q.Rank > 0 {
		need.AgesAt = time.Now().Add(m.Config.Queue.Wait.D() / 2)
	}
	queued, err := m.Queue.Join(&need)
	if err != nil {
		return c.acquireOverflow(q, full)
	}
	q.Now = time.Now()
	w := &slotWait{queueEntry: queued, query: *q, canceled: done, deadline: q.Now.Add(m.Config.Queue.Wait.D())}
	if end := c.totalDeadline(); !end.IsZero() && end.Before(w.deadline) {
		w.deadline = end
	}
	if c.relay == nil && c.record.Stream && !c.ep.Form {
		if stream := c.request.NewStream(c.callInfo()); stream.HasInBandErrors() {
			w.keepaliveStream = stream
		}
	}
	c.slots.slotWait = w
	return c.awaitSlot()
}

func (c *Call) awaitSlot() (s engineSlot, err error) {
	w, begun := c.slots.slotWait, time.Now()
	c.setPhase(&phaseQueued)
	waited := w.queueEntry.Await(w.canceled, c.nextKeepaliveAt(begun), w.deadline, func() bool {
		w.query.Now = time.Now()
		if c.adoptNewestSnapshot() {
			w.query.Tiers, w.query.Arms, w.query.Exclude = c.keyTiers(), c.callArms(), c.search.excluded
		}
		route := c.config.model.Route
		s, err = acquireSlot(route, &w.query)
		if errors.Is(err, routing.ErrEngineStarting) {
			route.RequestWake(&w.query)
			return false
		}
		var stillFull *routing.FullError
		return !errors.As(err, &stillFull)
	})
	c.record.Queue += time.Since(begun)
	if errors.Is(waited, queue.ErrNoSlotYet) {
		return engineSlot{}, errWaitingForSlot
	}
	c.slots.leaveQueue()
	if waited == nil {
		c.setPhase(&phaseAwaitingEngine)
		return s, err
	}
	w.query.Now = time.Now()
	full := c.config.model.Route.RefusalError(&w.query)
	if errors.Is(waited, queue.ErrCanceled) {
		return engineSlot{}, full
	}
	if end := c.totalDeadline(); !end.IsZero() && !w.query.Now.Before(end) {
		return engineSlot{}, errTotalTimeout
	}
	return c.acquireOverflow(&w.query, full)
}

// acquireOverflow acquires a slot in a tier that accepts overflow, after the queue was full or a
// wait timed out. The call does not wait again.
func (c *Call) acquireOverflow(q *routing.Query, full error) (engineSlot, error) {
	route := c.config.model.Route
	if route.Tiers == nil {
		return engineSlot{}, full
	}
	q.Overflow, c.search.usesOverflow = true, true
	s, err := acquireSlot(route, q)
	if err == nil {
		c.setPhase(&phaseAwaitingEngine)
	}
	return s, err
}

// nextKeepaliveAt returns the time at which the client of a waiting call must get the next
// keep-alive.
func (c *Call) nextKeepaliveAt(now time.Time) time.Time {
	w, every := c.slots.slotWait, c.config.snapshot.Config.Stream.CommitAfter.D()
	switch r := c.relay; {
	case r != nil && r.keepaliveAfter > 0:
		return r.nextKeepaliveAt().StdTime()
	case r != nil, w.keepaliveStream == nil, every <= 0:
		return w.deadline
	}
	return now.Add(every)
}
