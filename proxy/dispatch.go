package proxy

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"penstock/config"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// dispatch sends the call to an engine, and to another one when the first fails in a way that
// allows it, until there is something to commit. It returns nil when the answer has been handed to
// fasthttp: whole, or as a relay that goes on from here. Otherwise the call ends with the *failure.
func (c *Call) dispatch() *failure {
	if f := c.blocked(c.record.Start); f != nil {
		return f
	}
	var first *failure
	failingOver := false
	for now := c.asked; ; now = time.Now() {
		queued := c.record.Queue
		lease, target, err := c.acquire(now)
		if err != nil {
			if cause := c.aborted(); cause != nil {
				return fromAbort(cause)
			}
			if first != nil && !(c.moves > 0 && isFull(err)) {
				return first // a retry that finds no room is not news to the client
			}
			return fromAcquire(err, fullRetryAfter(c.model, c.pool), c.model.Route.NextChance(now))
		}
		if failingOver {
			c.shared.Counters.Moved.Inc()
		}
		c.sendTo(lease, now.Add(c.record.Queue-queued))
		f := c.try(lease, target)
		if f == nil {
			c.clearPoison()
			return nil
		}
		c.recordLoss(f, now)
		c.attempt.note(f)
		c.attempt.end(f.outcome)
		if first == nil {
			first = f
		}
		if cause := c.aborted(); cause != nil {
			return fromAbort(cause)
		}
		failingOver = c.mayFailOver(f)
		if !failingOver && !c.mayRetry(f) && !c.roomElsewhere(f) {
			return f
		}
		c.awaited += time.Now().Sub(c.asked)
		c.tried = append(c.tried, lease.Upstream().ID())
	}
}

// sendTo notes the upstream of the attempt that begins.
func (c *Call) sendTo(lease *upstreams.Lease, now time.Time) {
	c.upstream = lease.Upstream()
	c.record.Upstream = c.upstream.Name()
	c.targets++
	c.target.Store(c.upstream)
	c.asked = now
}

// acquire picks a target, and waits for one where the model has a queue. A reload may have retired
// every target of the snapshot that this call began with; then the newest one is asked in the same
// way, so that no reload causes a refusal.
func (c *Call) acquire(now time.Time) (*upstreams.Lease, *routing.Target, error) {
	q := routing.Query{Pool: c.pool, Key: c.record.Key, Tokens: c.promptTokens, Prefix: c.prefixBlocks(), Exclude: c.tried, Now: now, Rand: rand.Uint64()}
	if c.model.Crowded() {
		return c.waitForSlot(&q, c.model.Route.Full(&q))
	}
	lease, target, err := c.model.Route.Acquire(&q)
	if err == nil {
		return lease, target, nil
	}
	var full *routing.FullError
	switch {
	case errors.As(err, &full):
		return c.waitForSlot(&q, err)
	case !errors.Is(err, routing.ErrNoUpstream):
		return nil, nil, err
	}
	if !c.follow() {
		return nil, nil, err
	}
	return c.acquire(now)
}

// follow takes the call over to the newest snapshot. It is false when there is no newer one, or the
// model is not in it.
func (c *Call) follow() bool {
	newest := c.shared.Current()
	if newest == c.snap {
		return false
	}
	m, ok := newest.ModelByID(c.model.Config.ID)
	if ok {
		c.snap, c.model = newest, m
	}
	return ok
}

// prefixBlocks hashes the prompt for a route that picks by what an engine has cached. The raw
// elements of `messages` of one turn are a byte prefix of the next turn's, so they can be hashed as
// they stand.
func (c *Call) prefixBlocks() []uint64 {
	if c.chat == nil || !c.model.Route.WantsPrefix() {
		return nil
	}
	if len(c.prefix) == 0 {
		seed := routing.Seed(c.model.Config.ID, c.cacheOwner(), c.chat.Tools().Raw())
		c.prefix = routing.HashBlocks(c.prefix, seed, c.chat.Messages().Raw())
	}
	return c.prefix
}

// attempts is how often the call was tried, for the log: a connection that could not be made is an
// attempt at which nothing was sent, and a request that was sent again in place of a dead
// connection is one more at the same engine.
func (c *Call) attempts() int { return max(c.sends, c.targets) }

// mayRetry is the one rule of what is sent again: only a failure that allows it, within the
// attempts of one call and the budget of all. Nothing has been committed when it is asked.
func (c *Call) mayRetry(f *failure) bool {
	if c.upload != nil && c.upload.spent {
		return false // a part of what was sent is gone
	}
	attempts := c.snap.Config.Retry.Attempts
	if !f.retry || c.sends-c.refits-c.failovers >= attempts || c.targets-c.moves-c.failovers >= attempts {
		return false
	}
	return c.takeRetry()
}

// takeRetry takes a retry from the budget of all calls, and counts whether there was one.
func (c *Call) takeRetry() bool {
	if !c.shared.Retries.Allow(time.Now(), c.snap.Config.Retry.Budget) {
		c.shared.Counters.RetriesDenied.Inc()
		return false
	}
	c.shared.Counters.Retried.Inc()
	return true
}

// mayFailOver reports whether the call may leave an engine whose host has vanished, while its
// client has been shown nothing. That is once a call, and apart from the budget of retries: an
// engine is lost with all of its calls at a time, and there is no load of retries from one that is
// taken out.
func (c *Call) mayFailOver(f *failure) bool {
	if !f.gone || c.failovers > 0 || c.snap.Config.Retry.Attempts < 2 || c.upload != nil && c.upload.spent {
		return false
	}
	c.failovers++
	return true
}

// note tells the upstream's state page what a call failed of, and its breaker who sent the call,
// unless the upstream is not to blame.
func (a *attempt) note(f *failure) {
	switch f.outcome {
	case upstreams.OutcomeTimeout, upstreams.OutcomeUnreachable, upstreams.OutcomeBadResponse, upstreams.OutcomeRefused:
	default:
		return
	}
	reason, sent := f.outcome.String(), true
	if x := (*http1.Failure)(nil); errors.As(f.api.Cause, &x) && x.Reason != "" {
		reason, sent = x.Reason, x.Sent
	}
	a.lease.Upstream().Health.Note(reason, f.status, time.Now())
	if f.outcome == upstreams.OutcomeRefused {
		return
	}
	a.lease.FailedFor(a.failureSource(sent))
}

// failureSource is the call as the breaker sees it when it has failed.
func (a *attempt) failureSource(sent bool) upstreams.FailureSource {
	c := a.call
	return upstreams.FailureSource{
		Key: c.record.Key, Body: c.bodyHash(), Served: a.target.Served,
		Sent: sent, Begun: a.headed, Limit: c.model.Clocks.FirstEvent.D(),
	}
}

// try makes one attempt, and another one under the same lease where the engine says how much less
// to ask it for, or may answer otherwise in a moment. It returns nil when the answer was handed
// over.
func (c *Call) try(lease *upstreams.Lease, target *routing.Target) *failure {
	c.fit(target)
	f := c.tryOnce(lease, target, lease.Exchange())
	repeats := f != nil && c.mayRepeat(f)
	if f == nil || !repeats && !c.refit(f) {
		return f
	}
	if repeats && !c.pause(notNowPause) {
		return f // aborted
	}
	now := time.Now()
	c.attempt.close(f.outcome, now)
	c.awaited += now.Sub(c.asked)
	c.asked = now
	if f = c.tryOnce(lease, target, lease.Again()); f != nil {
		c.refit(f) // it is not asked a third time: this only says what there would have been room for
	}
	return f
}

// notNowPause is how long an engine is given that cannot answer just now.
const notNowPause = 300 * time.Millisecond

// mayRepeat reports whether the same engine is to be asked once more, as it may answer otherwise in
// a moment. Where the failure allows another engine, and there is one, that is asked instead.
func (c *Call) mayRepeat(f *failure) bool {
	if !f.notNow || c.upload != nil || c.sends-c.refits-c.failovers >= c.snap.Config.Retry.Attempts {
		return false
	}
	if f.retry && c.otherTarget() {
		return false
	}
	return c.takeRetry()
}

// otherTarget reports whether an engine beside the one that was asked may take the call now.
func (c *Call) otherTarget() bool {
	q := routing.Query{Pool: c.pool, Key: c.record.Key, Exclude: append(c.tried[:len(c.tried):len(c.tried)], c.upstream.ID()), Now: time.Now()}
	targets := c.model.Route.Targets()
	return slices.ContainsFunc(targets, func(t routing.Target) bool { return c.model.Route.Room(t.Upstream, &q).Slots > 0 })
}

// pause waits, and reports whether the call is still wanted after it.
func (c *Call) pause(d time.Duration) bool {
	left := make(chan struct{})
	c.left.Store(&left)
	if c.aborted() != nil {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-left:
		return false
	}
}

// asksStream reports whether the engine is asked for a stream: the client wants one, or the
// engine's work can be cancelled in no other way.
func (c *Call) asksStream(lease *upstreams.Lease) bool {
	return c.record.Stream && !c.ep.binaryResponse || c.chat != nil && lease.Upstream().Engine().Has(config.QuirkCancelOnlyStreams)
}

// tryOnce makes one exchange under a lease. It returns nil when the answer was handed over.
func (c *Call) tryOnce(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) *failure {
	a := &c.attempt
	if err := a.open(c, lease, target, x, c.asksStream(lease)); err != nil {
		return a.failureOf(err)
	}
	if !c.record.Stream {
		return c.tryUnary()
	}
	return c.tryStream()
}

// tryStream waits for the first event, or for as long as the client may be kept without a status
// line.
func (c *Call) tryStream() *failure {
	a := &c.attempt
	c.ep.answer(c)
	var commit time.Time
	if d := c.snap.Config.Stream.CommitAfter.D(); d > 0 && !c.ep.binaryResponse {
		commit = a.sentAt.Add(d)
	}
	if err := a.awaitHead(commit); err == nil {
		a.rest(commit)
	} else if !errors.Is(err, http1.ErrNotYet) {
		return a.failureOf(err)
	}
	out := outPool.Get().(*[]byte)
	first, done, err := a.pull((*out)[:chunkRoom], commit)
	*out = first
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		*out = c.stream.Keepalive(first)
	default:
		recycleOut(out)
		c.reply.give(replyOut)
		return a.failureOf(err)
	}
	c.commit(out, done)
	return nil
}

// failureOf is classify for an error that is certain to be one.
func (a *attempt) failureOf(err error) *failure {
	var f *failure
	if errors.As(a.classify(err), &f) {
		return f
	}
	return badResponse(err)
}
