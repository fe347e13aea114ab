package call

import (
	"cmp"
	"errors"
	"time"

	"penstock/config"
	"penstock/proxy/attempt"
	"penstock/proxy/endpoint"
	"penstock/proxy/failure"
	"penstock/proxy/observe"
	"penstock/proxy/shadow"
	"penstock/routing"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// dispatcher sends a call to engines until there is something to commit.
type dispatcher struct{ call *Call }

// run sends the call to an engine, and to another one when the first fails in a way that allows
// it. It returns nil when the answer has been handed to fasthttp: whole, or as a relay that goes
// on from here. Otherwise the call ends with the failure.
func (d dispatcher) run() *failure.Failure {
	if d.call.poison.blocked(d.call.record.Start) {
		return failure.Poisoned()
	}
	f, asked := d.ask(d.call.times.asked)
	for asked {
		if f == nil {
			f = d.await()
		}
		if f == nil {
			if d.call.tries.wait == nil {
				d.call.clearPoison()
			}
			return nil
		}
		f, asked = d.recover(f)
	}
	return f
}

// ask sends the call to an engine that it has not been sent to. The failure is that of the sending,
// or nil; asked is false when there is no engine to ask, and the call ends with the failure. Where
// it waits for a slot still (tries.wait), it is to be called again.
func (d dispatcher) ask(now time.Time) (f *failure.Failure, asked bool) {
	queued := d.call.record.Queue
	lease, target, err := picker(d).acquire(now)
	if err != nil && !errors.Is(err, errWaiting) {
		lease, target, err = fallbacks(d).acquire(now, err)
	}
	switch {
	case errors.Is(err, errWaiting):
		return nil, true
	case err != nil:
		return d.noTarget(err, now), false
	}
	d.beginTry(lease, target, now.Add(d.call.record.Queue-queued))
	fitter(d).lower(target)
	f = d.open(lease, target, lease.Exchange())
	if d.call.config.model.Shadow != nil {
		shadowed(d.call)
	}
	return f, true
}

// shadowed has a copy of the call sent to another model, if it is of the share that is: once the
// first engine has been sent the call itself, which so waits for nothing of it.
func shadowed(c *Call) {
	if c.tries.targets > 1 || c.record.Asked != "" || c.ep.Local != nil || c.request.Chat() == nil {
		return
	}
	c.shared.Shadows.Begin(&shadow.Call{
		Model: c.config.model, Endpoint: c.ep, Body: &c.body, Request: c.request, Snapshot: c.config.snapshot,
		RequestID: c.client.requestID, Key: c.record.Key, Tiers: picker{c}.tiers(),
		Pool: c.tries.pool, Tokens: c.tokens.prompt, Rank: config.MaxClasses, Abort: &c.abort, Formats: &c.shared.formats, Changes: &c.shared.refusals,
		Owner: cacheOwner(c.rates.key, c.config.model.Shadow), Salt: c.shared.salt,
	})
}

// recover asks once more after a failure, as long as the client has been shown nothing of the
// answer: the same engine, where it may take the request in another form or answer otherwise in a
// moment, or another one. Its results are those of ask.
func (d dispatcher) recover(f *failure.Failure) (after *failure.Failure, asked bool) {
	a, t := &d.call.attempt, &d.call.tries
	again := !t.repeated && d.mayRepeat(f)
	if again {
		again = d.pause(notNowPause)
	} else {
		again = changer(d).change(f) // and not a third time
	}
	if again {
		now, lease, target := time.Now(), a.Lease(), a.Target()
		d.call.noteFailed(f, now)
		t.repeated = true
		a.Close(f.Outcome, now)
		d.call.times.askAgain(now)
		return d.open(lease, target, lease.Again()), true
	}
	now := time.Now()
	d.giveUp(f, d.call.attempt.Reply.Progress().Begun, now)
	if t.failure == nil {
		t.failure = f
	}
	if cause := d.call.abort.Cause(); cause != nil {
		return failure.FromAbort(cause), false
	}
	failsOver, doubts := d.mayFailOver(f), d.mayDoubt(f)
	if !failsOver && !doubts && !d.mayRetry(f) && !fitter(d).roomElsewhere(f) {
		if t.doubted && f.Outcome != upstreams.OutcomeRejected {
			f = t.failure // that another engine has failed, too, is not news to the client
		}
		return f, false
	}
	t.doubted = t.doubted || doubts
	d.call.times.addAwaited(now)
	t.exclude(t.upstream)
	after, asked = d.ask(now)
	if asked && failsOver {
		d.call.shared.Counters.moved(f).Inc()
	}
	if lease := a.Lease(); asked && f.Doubt != nil && lease != nil {
		lease.Settles(f.Doubt)
	}
	return after, asked
}

// noTarget is the end of a call for which no target was found.
func (d dispatcher) noTarget(err error, now time.Time) *failure.Failure {
	if cause := d.call.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first := d.call.tries.failure; first != nil && !(d.call.tries.moves > 0 && errors.As(err, &full)) {
		return first // a retry that finds no room is not news to the client
	}
	d.noteOwnArm()
	m := d.call.config.model
	next := m.Route.NextChance(picker(d).tiers(), now)
	return failure.FromAcquire(err, failure.FullRetryAfter(m, d.call.tries.pool), next)
}

// beginTry notes the upstream of the attempt that begins.
func (d dispatcher) beginTry(lease *upstreams.Lease, target *routing.Target, now time.Time) {
	u := lease.Upstream()
	d.call.tries.begin(u)
	d.call.record.Upstream, d.call.record.Tier = u.Name(), target.Tier
	d.noteArm(target)
	d.call.public.target.Store(u)
	d.call.times.ask(now)
}

// noteArm notes the arm of the attempt that begins, where the model has some.
func (d dispatcher) noteArm(target *routing.Target) {
	r, route := &d.call.record, d.call.config.model.Route
	if r.Arm, r.MissedArm = target.Arm, ""; d.compared() {
		r.Arm = cmp.Or(r.Arm, observe.NoArm)
		if own, missed := routing.Missed(route, picker(d).arms(), target); missed {
			r.MissedArm = cmp.Or(own, observe.NoArm)
		}
	}
}

// noteOwnArm notes the arm that the call is of, where no upstream was asked: it is a refused one of
// that arm's.
func (d dispatcher) noteOwnArm() {
	if r := &d.call.record; d.call.attempts() == 0 && d.compared() {
		r.Arm = cmp.Or(routing.Own(d.call.config.model.Route, picker(d).arms(), picker(d).tiers()), observe.NoArm)
	}
}

// compared reports whether the model's calls are counted by arms: it has some, or a shadow.
func (d dispatcher) compared() bool {
	m := d.call.config.model
	return m.Shadow != nil || routing.SharesCalls(m.Route)
}

// giveUp ends an attempt that has failed. begun: the engine had begun to answer, so that the
// request is above suspicion.
func (d dispatcher) giveUp(f *failure.Failure, begun bool, now time.Time) {
	d.call.poison.recordLoss(f, begun, d.call.tries.upstream, now)
	d.call.failAttempt(f, now)
}

// mayRetry reports whether another engine is asked: the failure allows it, and the budget of all
// calls. An engine that does not have the model has done no work, so asking another one costs the
// engines nothing and is not charged: one engine whose list is wrong refuses most of its calls.
func (d dispatcher) mayRetry(f *failure.Failure) bool {
	retry := &d.call.config.snapshot.Config.Retry
	return !d.call.request.Form().Spent() && d.call.tries.allowsRetry(f, d.call.tried(), retry.Attempts) &&
		(f.Outcome == upstreams.OutcomeModelGone || d.call.shared.takeRetry(retry.Budget))
}

// mayDoubt reports whether another engine is asked because the refusal of the first may not be the
// client's fault. It costs the client nothing, so it does not wait for a slot.
func (d dispatcher) mayDoubt(f *failure.Failure) bool {
	return f.Doubt != nil && !f.Retry && d.call.tries.targets == 1 && !d.call.request.Form().Spent() &&
		picker(d).otherTarget()
}

// mayFailOver reports whether the call leaves an engine whose host has vanished.
func (d dispatcher) mayFailOver(f *failure.Failure) bool {
	return !d.call.request.Form().Spent() && d.call.tries.failOver(f, d.call.config.snapshot.Config.Retry.Attempts)
}

// notNowPause is how long an engine is given that cannot answer just now.
const notNowPause = 300 * time.Millisecond

// mayRepeat reports whether the same engine is to be asked once more, as it may answer otherwise in
// a moment. Where the failure allows another engine, and there is one, that is asked instead.
func (d dispatcher) mayRepeat(f *failure.Failure) bool {
	retry := &d.call.config.snapshot.Config.Retry
	if !f.NotNow || d.call.ep.Form || d.call.tries.sentOften(d.call.tried(), retry.Attempts) {
		return false
	}
	if f.Retry && picker(d).otherTarget() {
		return false
	}
	return d.call.shared.takeRetry(retry.Budget)
}

// pause waits, and reports whether the call is still wanted after it.
func (d dispatcher) pause(t time.Duration) bool {
	left, ok := d.call.abort.Wait()
	if !ok {
		return false
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-left:
		return false
	}
}

// await waits for an answer that can be handed over. It returns nil when it was.
func (d dispatcher) await() *failure.Failure {
	if d.call.tries.wait != nil {
		d.commitWaiting()
		return nil
	}
	if !d.call.record.Stream {
		u := unary{call: d.call}
		return u.try()
	}
	return d.tryStream()
}

// open makes one attempt under a lease: it sends the request.
func (d dispatcher) open(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) *failure.Failure {
	if err := d.send(lease, target, x); err != nil {
		return d.call.attempt.FailureOf(err)
	}
	return nil
}

func (d dispatcher) send(lease *upstreams.Lease, target *routing.Target, x *http1.Exchange) error {
	a, m := &d.call.attempt, d.call.config.model
	terms := attempt.Terms{
		Request: d.call.request, Model: m, PromptTokens: d.call.tokens.prompt,
		Start: d.call.record.Start, Asked: d.call.times.asked, RequestID: d.call.client.requestID,
		Key: d.call.record.Key, Tiers: picker(d).tiers(), Body: &d.call.poison,
		Span: d.call.trace.span, Number: d.call.tries.targets,
		Memory: &d.call.memory, Abort: &d.call.abort, Guard: d.call.shared.Guard, Mover: picker(d),
	}
	if d.call.trace.span == nil {
		terms.Traceparent = d.call.trace.context(&d.call.client)
	}
	a.Begin(&terms, lease, target, x)
	to := changer(d).target(lease, target)
	sending, err := d.call.request.Fill(to)
	lease.Needs(endpoint.NeedsAt(d.call.tries.needs, sending.Native != nil))
	if errors.Is(err, endpoint.ErrNoPath) {
		f := failure.NoEndpoint(0)
		f.Outcome = upstreams.OutcomeClientGone // it was not asked
		return f
	}
	if err == nil {
		err = a.Send(sending, to.Stream, a.Sends() > d.call.tries.changes)
	}
	if err == nil {
		d.call.record.Stream = d.call.request.Streams() // the last field of a form may have asked for events
	}
	return err
}

// answerOf is what the codec of an answer needs to know.
func (c *Call) answerOf() endpoint.Answer {
	return endpoint.Answer{
		Model: c.config.model.Config, RequestID: c.client.requestID, Created: c.record.Start,
		PromptTokens: c.tokens.prompt, Streamed: c.attempt.AsksStream(),
	}
}

// tryStream waits for the first event, or for as long as the client may be kept without a status
// line.
func (d dispatcher) tryStream() *failure.Failure {
	a := &d.call.attempt
	stream := keeping(d.call, d.call.request.Stream(d.call.answerOf()))
	var commit time.Time
	if after := d.call.config.snapshot.Config.Stream.CommitAfter.D(); after > 0 && stream.InBand() {
		commit = a.Reply.Progress().SentAt.Add(after)
	}
	if err := a.AwaitHead(commit); err == nil {
		a.Reply.Rest(commit)
	} else if !errors.Is(err, http1.ErrNotYet) {
		return a.FailureOf(err)
	}
	out := attempt.NewBuffer()
	first, done, err := a.Pull((*out)[:chunkRoom], commit, stream)
	*out = first
	switch {
	case err == nil:
	case errors.Is(err, http1.ErrNotYet):
		d.call.keepalive(stream, out)
	default:
		attempt.Recycle(out)
		d.call.memory.Free(attempt.PartOut)
		resumer(d).forget()
		return a.FailureOf(err)
	}
	commitStream(d.call, stream, out, done)
	return nil
}

// commitWaiting hands the answer over as a stream before any engine was asked for it. The relay
// goes on with the wait.
func (d dispatcher) commitWaiting() {
	c := d.call
	c.times.ask(time.Now())
	stream := keeping(c, c.tries.wait.stream)
	out := newOut()
	c.keepalive(stream, out)
	commitStream(c, stream, out, false)
}
