package call

import (
	"cmp"
	"errors"
	"time"

	"penstock/config"
	"penstock/config/instant"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/retry"
	"penstock/proxy/request/shadow"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
	"penstock/upstreams/http1"
)

// dispatcher sends a call to engines until there is something to commit.
type dispatcher struct{ call *Call }

// run sends the call to an engine, and to another one if the first fails in a way that allows it.
// It returns nil once the answer has been handed to fasthttp: whole, or as a relay that takes over
// from here. Otherwise the call ends with the failure.
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

// ask sends the call to an engine that it has not been sent to. f is the failure of the sending, or
// nil. asked is false if there is no engine to ask; the call then ends with f. If the call still
// waits for a slot (tries.wait), ask is to be called again.
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

// shadowed has a copy of the call sent to another model, if the call falls within the share that is
// copied. It runs once the call itself has been sent to its first engine, so the call waits for
// none of this.
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

// recover does what package retry decides after a failure. Its results are those of ask.
func (d dispatcher) recover(f *failure.Failure) (after *failure.Failure, asked bool) {
	a, t := &d.call.attempt, &d.call.tries
	changer(d).note(f)
	step := d.decide(f)
	if step == retry.Repeat && d.pause(notNowPause) || step == retry.Change && changer(d).change(f) {
		now, lease, target := time.Now(), a.Lease(), a.Target()
		d.call.noteFailed(f, now)
		t.sends.Note(step)
		a.Close(f.Outcome, now)
		d.call.times.askAgain(now)
		return d.open(lease, target, lease.Again()), true
	}
	if step == retry.Resume {
		return resumer(d).resume(f)
	}
	now := time.Now()
	d.giveUp(f, a.Reply.Progress().Begun, now)
	if t.failure == nil {
		t.failure = f
	}
	if cause := d.call.abort.Cause(); cause != nil {
		return failure.FromAbort(cause), false
	}
	switch step {
	case retry.Other, retry.Move:
	case retry.Larger:
		fitter(d).excludeSmaller()
		d.call.shared.Counters.Refits.Inc()
	case retry.Below:
		picker(d).leaveTier()
	default:
		return d.lastFailure(f), false
	}
	t.doubted = t.doubted || f.Doubt != nil && !f.Retry
	d.call.times.addAwaited(now)
	t.exclude(t.upstream)
	if after, asked = d.ask(now); !asked {
		return after, false
	}
	t.sends.Note(step)
	if step == retry.Move {
		d.call.shared.Counters.moved(f).Inc()
	}
	if lease := a.Lease(); f.Doubt != nil && lease != nil {
		lease.Settles(f.Doubt)
	}
	return after, true
}

// lastFailure returns what the client gets of a call that is not sent again.
func (d dispatcher) lastFailure(f *failure.Failure) *failure.Failure {
	t := &d.call.tries
	if t.doubted && f.Outcome != upstreams.OutcomeRejected {
		return t.failure // the client need not learn that another engine has failed, too
	}
	fitter(d).explain(f)
	return f
}

// decide runs retry.Decide for the call as it stands. A step that costs the budget of retries is
// taken only if the budget has a retry left.
func (d dispatcher) decide(f *failure.Failure) retry.Step {
	state, failed := d.state(f), d.failed(f)
	step := retry.Decide(&state, &failed)
	if !retry.Charged(step, &failed) || d.call.shared.takeRetry(d.call.config.snapshot.Config.Retry.Budget) {
		return step
	}
	state.NoBudget = true
	return retry.Decide(&state, &failed)
}

// state describes where the call stands after a failure.
func (d dispatcher) state(f *failure.Failure) retry.State {
	c := d.call
	s := retry.State{
		Part:  c.showsPart(),
		Spent: c.request.Form().Spent() || c.record.Committed && !c.body.Held(),
		Form:  c.ep.Form, Strict: c.config.model.Rules.Strict,
		Attempts: c.config.snapshot.Config.Retry.Attempts, Sends: c.tries.sends,
	}
	if s.Part {
		s.Resumable = f.EngineLost() && resumer(d).allows(time.Now())
		return s
	}
	s.BodyFails = f.Failed != 0 && c.poison.fails(time.Now())
	if c.attempt.Target() != nil {
		s.Room, s.Below = picker(d).otherTarget(), picker(d).mayLeaveTier()
		s.Longer = f.API.Code == apierr.CodeContextLength && fitter(d).roomElsewhere()
	}
	return s
}

// failed describes a failure to package retry.
func (d dispatcher) failed(f *failure.Failure) retry.Failure {
	return retry.Failure{
		Cause: f.Next(), Elsewhere: f.Retry, Changeable: changer(d).helps(f), Worked: time.Since(d.call.times.asked),
	}
}

// noTarget returns how a call ends for which no target was found.
func (d dispatcher) noTarget(err error, now time.Time) *failure.Failure {
	if cause := d.call.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first := d.call.tries.failure; first != nil && !(d.call.tries.sends.Longer > 0 && errors.As(err, &full)) {
		return first // the client need not learn that a retry found no room
	}
	d.noteOwnArm()
	m := d.call.config.model
	next := m.Route.NextChance(picker(d).tiers(), now)
	return failure.FromAcquire(err, failure.FullRetryAfter(m, d.call.tries.pool), next)
}

// beginTry records the upstream of the attempt that begins.
func (d dispatcher) beginTry(lease *upstreams.Lease, target *routing.Target, now time.Time) {
	u := lease.Upstream()
	d.call.tries.begin(u)
	d.call.record.Upstream, d.call.record.Tier = u.Name(), target.Tier
	d.noteArm(target)
	d.call.tries.why.note(&d.call.record, lease)
	d.call.public.target.Store(u)
	d.call.times.ask(now)
}

// noteArm records the arm of the attempt that begins, if the model has arms.
func (d dispatcher) noteArm(target *routing.Target) {
	r, route := &d.call.record, d.call.config.model.Route
	if r.Arm, r.MissedArm = target.Arm, ""; d.compared() {
		r.Arm = cmp.Or(r.Arm, observe.NoArm)
		if own, missed := routing.Missed(route, picker(d).arms(), target); missed {
			r.MissedArm = cmp.Or(own, observe.NoArm)
		}
	}
}

// noteOwnArm records the call's own arm if no upstream was asked: the arm counts one refused call.
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

// giveUp ends an attempt that has failed. begun says that the engine had begun to answer, so the
// request is not suspected.
func (d dispatcher) giveUp(f *failure.Failure, begun bool, now time.Time) {
	d.call.poison.recordLoss(f, begun, d.call.tries.upstream, now)
	if first := d.call.tries.failure; f.Failed != 0 {
		d.call.poison.recordFailure(now)
		if first != nil && first.Failed == f.Failed { // two engines agree: the call is at fault
			f.Outcome = upstreams.OutcomeRejected
		}
	}
	d.call.failAttempt(f, now)
}

// notNowPause is how long the edge waits for an engine that cannot answer just now.
const notNowPause = 300 * time.Millisecond

// pause waits, and reports whether the call is still wanted afterwards.
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

// await waits for an answer that can be handed over. It returns nil once it was.
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

// open sends the request of one attempt under a lease.
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
	if d.call.trace.span != nil || terms.Traceparent != nil {
		terms.Tracestate = d.call.trace.state(&d.call.client)
	}
	a.Begin(&terms, lease, target, x)
	to := changer(d).target(lease, target)
	sending, err := d.call.request.Fill(to)
	lease.Needs(d.call.tries.needs)
	if errors.Is(err, endpoint.ErrNoPath) {
		f := failure.NoEndpoint(0)
		f.Outcome = upstreams.OutcomeClientGone // it was not asked
		return f
	}
	if err == nil {
		err = a.Send(sending, to.Stream, a.Sends() > d.call.tries.sends.Changes+d.call.tries.sends.Longer)
	}
	if err == nil {
		d.call.record.Stream = d.call.request.Streams() // the last field of a form may have asked for events
	}
	return err
}

// answerOf returns what the codec of an answer needs to know.
func (c *Call) answerOf() endpoint.Answer {
	return endpoint.Answer{
		Model: c.config.model.Config, RequestID: c.client.requestID, Created: c.record.Start,
		PromptTokens: c.tokens.prompt, Streamed: c.attempt.AsksStream(),
	}
}

// tryStream waits for the first event, or for as long as the client may be left without a status
// line.
func (d dispatcher) tryStream() *failure.Failure {
	a := &d.call.attempt
	stream := keeping(d.call, d.call.request.Stream(d.call.answerOf()))
	var commit instant.Time
	if after := d.call.config.snapshot.Config.Stream.CommitAfter.D(); after > 0 && stream.InBand() {
		commit = a.Reply.Progress().SentAt().After(after)
	}
	if err := a.AwaitHead(commit.Std()); err == nil {
		if a.Reply.Rests() {
			a.Reply.Rest(commit)
		}
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

// commitWaiting hands the answer over as a stream before any engine was asked. The relay continues
// the wait.
func (d dispatcher) commitWaiting() {
	c := d.call
	c.times.ask(time.Now())
	stream := keeping(c, c.tries.wait.stream)
	out := newOut()
	c.keepalive(stream, out)
	commitStream(c, stream, out, false)
}
