package call

import (
	"errors"
	"time"

	"penstock/proxy/request/failure"
	"penstock/proxy/request/retry"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// loop sends a call to engines until one of them answers. It works in the same way before and after
// the response is committed. Package retry decides each step. The decision depends on what the
// client has received, whether the request can be sent again, and where it was sent before.
type loop struct{ call *Call }

type standing uint8

const (
	failed   standing = iota // the call fails
	asked                    // an engine has received the request
	waiting                  // the call waits for a slot and must continue this wait
	complete                 // the client has received everything except the end of the stream
)

func (l loop) first(now time.Time) (standing, *failure.Failure) {
	at, f := l.ask(now)
	if at != asked || f == nil {
		return at, f
	}
	return l.next(f)
}

// next takes the steps that package retry chooses after an attempt has failed. It returns when an
// engine has received the request, when the call must wait for a slot, or when the call is complete
// or has failed.
func (l loop) next(f *failure.Failure) (standing, *failure.Failure) {
	at := asked
	for at == asked && f != nil {
		l.call.noteRejection(f)
		switch step, changed := l.decide(f); step {
		case retry.Finish:
			return complete, f
		case retry.Repeat, retry.Change:
			at, f = l.askAgain(step, changed, f)
		case retry.Resume:
			at, f = l.resume(f)
		default:
			at, f = l.askElsewhere(step, f)
		}
	}
	return at, f
}

// ask sends the call to an engine that has not received it yet. A failure that is returned together
// with asked occurred while sending.
func (l loop) ask(now time.Time) (standing, *failure.Failure) {
	queued := l.call.record.Queue
	s, err := l.call.acquire(now)
	if err != nil && !errors.Is(err, errWaiting) {
		s, err = l.call.acquireFallback(now, err)
	}
	switch {
	case errors.Is(err, errWaiting):
		return waiting, nil
	case err != nil:
		return failed, l.noTarget(err, now)
	}
	if waited := l.call.record.Queue - queued; waited > 0 {
		now = now.Add(waited)
	}
	l.call.tries.takeTurn(s.turn)
	l.beginTry(s.lease, s.target, now)
	l.call.lowerLimit(s.target)
	f := l.open(s.lease, s.target, s.lease.Exchange())
	l.call.sentToEngine()
	return asked, f
}

func (l loop) askAgain(step retry.Step, changed change, f *failure.Failure) (standing, *failure.Failure) {
	c := l.call
	if step == retry.Repeat && !l.pause(notNowPause) {
		return l.askElsewhere(retry.Fail, f)
	}
	if step == retry.Change {
		c.applyChange(changed)
	}
	now, lease, target := time.Now(), c.attempt.Lease(), c.attempt.Target()
	c.noteFailed(f, now)
	c.tries.sends.Note(step)
	c.attempt.Close(f.Outcome, now)
	c.times.askAgain(now)
	return asked, l.open(lease, target, lease.Again())
}

// askElsewhere ends the failed attempt. It then sends the call to another engine, unless the step
// is retry.Fail.
func (l loop) askElsewhere(step retry.Step, f *failure.Failure) (standing, *failure.Failure) {
	c, t, now := l.call, &l.call.tries, time.Now()
	l.giveUp(f, c.attempt.Reply.Progress().Begun, now)
	if t.failure == nil {
		t.failure = f
	}
	if cause := c.abort.Cause(); cause != nil {
		return failed, failure.FromAbort(cause)
	}
	if step == retry.Fail {
		return failed, l.lastFailure(f)
	}
	if step == retry.Larger {
		x := c.contexts()
		t.excluded = x.appendSmaller(t.excluded)
		c.shared.Counters.Refits.Inc()
	}
	if step == retry.Below {
		l.call.leaveTier()
	}
	t.doubted = t.doubted || f.Doubt != nil && !f.Retry
	c.times.addAwaited(now)
	t.exclude(t.upstream)
	at, after := l.ask(now)
	if at == failed {
		return failed, after
	}
	t.sends.Note(step)
	if step == retry.Move {
		c.shared.Counters.moved(f).Inc()
	}
	if lease := c.attempt.Lease(); f.Doubt != nil && lease != nil {
		lease.Settles(f.Doubt)
	}
	return at, after
}

func (l loop) resume(f *failure.Failure) (standing, *failure.Failure) {
	c, now := l.call, time.Now()
	l.giveUp(f, false, now)
	c.tries.exclude(c.tries.upstream)
	c.tries.excluded = appendCannotContinue(c.tries.excluded, c.config.model.Route.Targets(), c.tries.recording.HasReasoning())
	c.tries.recording.Continue(c.request.Chat())
	c.times.addAwaited(now)
	at, after := l.ask(now)
	if at == failed {
		// The client gets the original failure, because the lack of a slot is only a consequence.
		return failed, f
	}
	c.tries.sends.Note(retry.Resume)
	c.tries.recording.NextEngine()
	c.shared.Counters.Resumed.Inc()
	return at, after
}

// decide chooses the next step, and the change that retry.Change makes. If the step needs the retry
// budget but the budget is empty, decide chooses a step that does not need it.
func (l loop) decide(f *failure.Failure) (retry.Step, change) {
	c := l.call
	changed, changeable := c.changeFor(f)
	state := l.state(f)
	why := retry.Failure{Cause: f.Next(), Elsewhere: f.Retry, Changeable: changeable, Worked: time.Since(c.times.asked)}
	step := retry.Decide(&state, &why)
	if !retry.Charged(step, &why) || c.shared.takeRetry(c.config.snapshot.Config.Retry.Budget) {
		return step, changed
	}
	state.NoBudget = true
	return retry.Decide(&state, &why), changed
}

func (l loop) state(f *failure.Failure) retry.State {
	c := l.call
	s := retry.State{
		Part:  c.showsPart(),
		Spent: c.request.Spent() || c.record.Committed && !c.body.Held(),
		Form:  c.ep.Form, Strict: c.config.model.Rules.Strict,
		Attempts: c.config.snapshot.Config.Retry.Attempts, Sends: c.tries.sends,
	}
	if s.Part {
		s.Resumable = f.EngineLost() && c.mayResume(time.Now())
		s.Complete = s.Resumable && c.tries.recording.Full(&c.request.Chat().Tokens)
		return s
	}
	s.BodyFails = f.Failed != 0 && c.poison.fails(time.Now())
	if c.attempt.Target() != nil {
		s.Room, s.Below = l.call.otherTarget(), l.call.mayLeaveTier()
		if f.API.Code == apierr.CodeContextLength {
			x := c.contexts()
			s.Longer = x.roomElsewhere()
		}
	}
	return s
}

func (l loop) lastFailure(f *failure.Failure) *failure.Failure {
	c, t := l.call, &l.call.tries
	if t.doubted && f.Outcome != upstreams.OutcomeRejected {
		// The client gets the first refusal, because the second engine did not contradict it.
		return t.failure
	}
	if f.API.Code == apierr.CodeContextLength && !c.config.model.Rules.Strict && c.attempt.Target() != nil && !c.ep.Form {
		x := c.contexts()
		x.explain(f)
	}
	return f
}

func (l loop) noTarget(err error, now time.Time) *failure.Failure {
	if cause := l.call.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first := l.call.tries.failure; first != nil && !(l.call.tries.sends.Longer > 0 && errors.As(err, &full)) {
		return first // the client gets the first failure
	}
	l.noteOwnArm()
	m := l.call.config.model
	next := m.Route.NextChance(l.call.tiers(), now)
	return failure.FromAcquire(err, failure.FullRetryAfter(m, l.call.tries.pool), next)
}

// giveUp ends a failed attempt. If begun is true, the request is not suspected of having killed the
// engine. resume passes false even if the engine has begun to answer. Otherwise, a request that
// kills engines in the middle of their answers would be resumed at one engine after another.
func (l loop) giveUp(f *failure.Failure, begun bool, now time.Time) {
	l.call.poison.recordLoss(f, begun, l.call.tries.upstream, now)
	if first := l.call.tries.failure; f.Failed != 0 {
		l.call.poison.recordFailure(now)
		// Two engines failed in the same way, so the request is to blame.
		if first != nil && first.Failed == f.Failed {
			f.Outcome = upstreams.OutcomeRejected
		}
	}
	l.call.failAttempt(f, now)
}

// notNowPause is the pause before another request to an engine that cannot answer at the moment.
const notNowPause = 300 * time.Millisecond

// pause waits for t. It returns false if the call is canceled.
func (l loop) pause(t time.Duration) bool {
	left, ok := l.call.abort.Wait()
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
