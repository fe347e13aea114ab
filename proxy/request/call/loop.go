package call

import (
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/retry"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// The loop sends a call to engines until one of them answers. It works in the same way before and
// after the response is committed. Package retry decides each step. The decision depends on what
// the client has received, whether the request can be sent again, and where it was sent before.

// sendResult is the state of a call after it was sent, or was to be sent.
type sendResult uint8

const (
	failed   sendResult = iota // the call fails
	sent                       // an engine has received the request
	waiting                    // the call waits for a slot and must continue this wait
	complete                   // the client has received everything except the end of the stream
)

// firstAttempt sends a call that no engine has received, or that has waited for a slot.
func (c *Call) firstAttempt(now time.Time) (sendResult, *failure.Failure) {
	var lost *failure.Failure
	if w := c.tries.wait; w != nil {
		lost = w.lost
	}
	result, f := c.sendToNext(now)
	switch {
	case lost == nil:
	case result == sent:
		c.resumed()
	case result == failed && c.abort.Cause() == nil:
		f = lost
	}
	if result != sent || f == nil {
		return result, f
	}
	return c.nextAttempt(f)
}

// nextAttempt takes the steps that package retry chooses after an attempt has failed. It returns
// when an engine has received the request, when the call must wait for a slot, or when the call is
// complete or has failed.
func (c *Call) nextAttempt(f *failure.Failure) (sendResult, *failure.Failure) {
	result := sent
	for result == sent && f != nil {
		c.noteRejection(f)
		switch step, changed := c.decide(f); step {
		case retry.Finish:
			return complete, f
		case retry.Repeat, retry.Change:
			result, f = c.sendAgain(step, changed, f)
		default:
			result, f = c.sendElsewhere(step, f)
		}
	}
	return result, f
}

// sendToNext sends the call to an engine that has not received it yet. A failure that is returned
// together with sent occurred while sending.
func (c *Call) sendToNext(now time.Time) (sendResult, *failure.Failure) {
	queued := c.record.Queue
	s, err := c.acquire(now)
	if err != nil && !errors.Is(err, errWaiting) {
		s, err = c.acquireFallback(now, err)
	}
	switch {
	case errors.Is(err, errWaiting):
		return waiting, nil
	case err != nil:
		return failed, c.noTarget(err, now)
	}
	if waited := c.record.Queue - queued; waited > 0 {
		now = now.Add(waited)
	}
	c.beginAttempt(s, now)
	c.lowerLimit(s.target)
	f := c.send(s, s.lease.Exchange())
	c.notifySent()
	return sent, f
}

// sendAgain sends the call to the engine whose attempt has failed.
func (c *Call) sendAgain(step retry.Step, changed change, f *failure.Failure) (sendResult, *failure.Failure) {
	if step == retry.Repeat && !pause(&c.abort, notNowPause) {
		return c.sendElsewhere(retry.Fail, f)
	}
	if step == retry.Change {
		c.applyChange(changed)
	}
	now, s := time.Now(), slot{c.attempt.Lease(), c.attempt.Target()}
	c.recordFailed(f, now)
	c.tries.sends.Note(step)
	c.attempt.Close(f.Outcome, now)
	c.times.addAwaited(now)
	c.times.begun = now
	return sent, c.send(s, s.lease.Again())
}

// sendElsewhere ends the failed attempt. It then sends the call to another engine, unless the step
// is retry.Fail.
func (c *Call) sendElsewhere(step retry.Step, f *failure.Failure) (sendResult, *failure.Failure) {
	t, now := &c.tries, time.Now()
	// If a request kills engines in the middle of their answers, it must not be resumed at one
	// engine after another. Its first event therefore does not clear it of suspicion.
	c.giveUp(f, step != retry.Resume && c.attempt.Reply.Progress().Begun, now)
	// The loss of a stream that is resumed is mended, and is no reason to treat the next engines or
	// their failures differently.
	if t.failure == nil && step != retry.Resume {
		t.failure = f
	}
	if cause := c.abort.Cause(); cause != nil {
		return failed, failure.FromAbort(cause)
	}
	if step == retry.Fail {
		return failed, c.lastFailure(f)
	}
	c.excludeFor(step)
	if step == retry.Resume {
		t.recording.Continue(c.request.Chat())
	}
	t.doubted = t.doubted || f.Doubt != nil && !f.Retry && step != retry.Resume
	c.times.addAwaited(now)
	result, after := c.sendToNext(now)
	switch {
	case result == failed && step == retry.Resume:
		return failed, f // the lack of a slot is only a consequence
	case result == failed:
		return failed, after
	case result == waiting && step == retry.Resume:
		t.wait.lost = f
		return waiting, nil
	case step == retry.Resume:
		c.resumed()
		return result, after
	}
	t.sends.Note(step)
	c.shared.Counters.sentElsewhere(step, f)
	if lease := c.attempt.Lease(); f.Doubt != nil && lease != nil {
		lease.Settles(f.Doubt)
	}
	return result, after
}

// resumed records that another engine was asked to continue the stream.
func (c *Call) resumed() {
	c.tries.recording.NextEngine()
	c.tries.sends.Note(retry.Resume)
	c.shared.Counters.Resumed.Inc()
}

// excludeFor excludes the current engine, and all engines to which the step must not send the call.
func (c *Call) excludeFor(step retry.Step) {
	t := &c.tries
	if step == retry.Larger {
		x := c.contexts()
		t.excluded = x.appendSmaller(t.excluded)
	}
	if step == retry.Below {
		c.leaveTier()
	}
	if step == retry.Resume {
		t.excluded = appendCannotContinue(t.excluded, c.config.model.Route.Targets(), t.recording.HasReasoning())
	}
	t.exclude(t.upstream)
}

// decide chooses the next step, and the change that retry.Change makes. If the step needs the retry
// budget but the budget is empty, decide chooses a step that does not need it.
func (c *Call) decide(f *failure.Failure) (retry.Step, change) {
	changed, changeable := c.changeFor(f)
	state := c.state(f)
	why := retry.Failure{Cause: f.Next(), Elsewhere: f.Retry, Changeable: changeable, Worked: time.Since(c.times.begun)}
	step := retry.Decide(&state, &why)
	if !retry.Charged(step, &why) || c.shared.takeRetry(c.config.snapshot.Config.Retry.Budget) {
		return step, changed
	}
	state.NoBudget = true
	return retry.Decide(&state, &why), changed
}

func (c *Call) state(f *failure.Failure) retry.State {
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
		s.Room, s.Below = c.otherTarget(), c.mayLeaveTier()
		if f.API.Code == apierr.CodeContextLength {
			x := c.contexts()
			s.Longer = x.roomElsewhere()
		}
	}
	return s
}

func (c *Call) lastFailure(f *failure.Failure) *failure.Failure {
	t := &c.tries
	if t.doubted && f.Outcome != upstreams.OutcomeRejected {
		// The client gets the first refusal, because no other engine contradicted it.
		return t.failure
	}
	if f.API.Code == apierr.CodeContextLength && !c.config.model.Rules.Strict && c.attempt.Target() != nil && !c.ep.Form {
		x := c.contexts()
		x.explain(f)
	}
	return f
}

func (c *Call) noTarget(err error, now time.Time) *failure.Failure {
	if cause := c.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first := c.tries.failure; first != nil && !(c.tries.sends.Longer > 0 && errors.As(err, &full)) {
		return first // the client gets the first failure that was not mended by a resume
	}
	c.recordOwnArm()
	m := c.config.model
	next := m.Route.NextChance(c.tiers(), now)
	return failure.FromAcquire(err, failure.FullRetryAfter(m, c.tries.pool), next)
}

// giveUp ends a failed attempt. If begun is true, the request is not suspected of having killed the
// engine.
func (c *Call) giveUp(f *failure.Failure, begun bool, now time.Time) {
	c.poison.recordLoss(f, begun, c.tries.upstream, now)
	if first := c.tries.failure; f.Failed != 0 {
		c.poison.recordFailure(now)
		// Two engines failed in the same way, so the request is to blame.
		if first != nil && first.Failed == f.Failed {
			f.Outcome = upstreams.OutcomeRejected
		}
	}
	c.failAttempt(f, now)
}

// notNowPause is the pause before another request to an engine that cannot answer at the moment.
const notNowPause = 300 * time.Millisecond

// pause waits for t. It returns false if the call is canceled.
func pause(abort *attempt.Abort, t time.Duration) bool {
	done, ok := abort.Wait()
	if !ok {
		return false
	}
	timer := time.NewTimer(t)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}
