package call

import (
	"cmp"
	"errors"
	"time"

	"penstock/proxy/request/attempt"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/retry"
	"penstock/proxy/telemetry/observe"
	"penstock/routing"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// The loop sends a call to engines until one of them answers. It works in the same way before and
// after the response is committed. Package retry decides each step. The decision depends on what
// the client has received, whether the request can be sent again, and where the call was sent
// before.

// sendResult is the result of an attempt to send a call to an engine.
type sendResult uint8

const (
	sendResultFailed   sendResult = iota // the call fails
	sendResultSent                       // an engine has received the request
	sendResultQueued                     // the call is waiting for a slot; sendFirstAttempt continues the wait
	sendResultComplete                   // the client has received everything except the end of the stream
)

// sendFirstAttempt sends a call that no engine has received, or a call that has waited for a slot.
func (c *Call) sendFirstAttempt(now time.Time) (sendResult, *failure.Failure) {
	var lost *failure.Failure
	if w := c.slots.slotWait; w != nil {
		lost = w.lost
	}
	result, f := c.sendToNextEngine(now)
	switch {
	case lost == nil:
	case result == sendResultSent:
		c.recordResume()
	case result == sendResultFailed && c.abort.Cause() == nil:
		f = lost
	}
	if result != sendResultSent || f == nil {
		return result, f
	}
	return c.retryAfterFailure(f)
}

// retryAfterFailure takes the steps that package retry chooses after an attempt has failed. It
// returns when an engine has received the request, when the call must wait for a slot, or when the
// call is complete or has failed.
func (c *Call) retryAfterFailure(f *failure.Failure) (sendResult, *failure.Failure) {
	result := sendResultSent
	for result == sendResultSent && f != nil {
		c.recordRejection(f)
		switch step, changed := c.chooseStep(f); step {
		case retry.StepFinish:
			return sendResultComplete, f
		case retry.StepSameEngine, retry.StepChangeRequest:
			result, f = c.resendToEngine(step, changed, f)
		default:
			result, f = c.sendElsewhere(step, f)
		}
	}
	return result, f
}

// sendToNextEngine sends the call to an engine that has not received it yet. If it returns both
// sendResultSent and a failure, the failure occurred while the request was being sent.
func (c *Call) sendToNextEngine(now time.Time) (sendResult, *failure.Failure) {
	queued := c.record.Queue
	s, err := c.pickSlot(now)
	if err != nil && !errors.Is(err, errWaitingForSlot) {
		s, err = c.acquireFallback(now, err)
	}
	switch {
	case errors.Is(err, errWaitingForSlot):
		return sendResultQueued, nil
	case err != nil:
		return sendResultFailed, c.noTargetFailure(err, now)
	}
	if waited := c.record.Queue - queued; waited > 0 {
		now = now.Add(waited)
	}
	c.beginAttempt(s, now)
	c.lowerTokenLimit(s.target)
	f := c.sendRequest(s, s.lease.Exchange())
	c.notifySent()
	return sendResultSent, f
}

// resendToEngine sends the call again to the engine at which the attempt failed.
func (c *Call) resendToEngine(step retry.Step, changed requestChange, f *failure.Failure) (sendResult, *failure.Failure) {
	if step == retry.StepSameEngine && !sleepUnlessCanceled(&c.abort, sameEnginePause) {
		return c.sendElsewhere(retry.StepFail, f)
	}
	if step == retry.StepChangeRequest {
		c.applyRequestChange(changed)
	}
	now, s := time.Now(), engineSlot{c.attempt.Lease(), c.attempt.Target()}
	recordFailedAttempt(&c.record, f, c.times.stepStart, now)
	c.attemptState.stepCounts.CountStep(step)
	c.attempt.CloseExchange(f.Outcome, now)
	c.times.addEarlierWait(now)
	c.times.stepStart = now
	return sendResultSent, c.sendRequest(s, s.lease.NewExchange())
}

// sendElsewhere ends the failed attempt. It then sends the call to another engine, unless the step
// is retry.StepFail.
func (c *Call) sendElsewhere(step retry.Step, f *failure.Failure) (sendResult, *failure.Failure) {
	t, now := &c.attemptState, time.Now()
	// If a request kills engines in the middle of their answers, it must not be resumed at one
	// engine after another. The first event of its answer therefore does not clear it of suspicion.
	c.endFailedAttempt(f, step != retry.StepResume && c.attempt.Reply.Progress().Begun, now)
	// A resume repairs the loss of a stream. The loss is therefore no reason to treat the next
	// engines or their failures differently.
	if t.firstFailure == nil && step != retry.StepResume {
		t.firstFailure = f
	}
	if cause := c.abort.Cause(); cause != nil {
		return sendResultFailed, failure.FromAbort(cause)
	}
	if step == retry.StepFail {
		return sendResultFailed, c.finalFailure(f)
	}
	c.excludeForStep(step)
	if step == retry.StepResume {
		t.recording.AddToRequest(c.request.Chat())
	}
	t.resentInDoubt = t.resentInDoubt || f.Doubt != nil && !f.Retry && step != retry.StepResume
	if step != retry.StepResume {
		t.stepCounts.CountStep(step) // before the send, which looks at the counts
	}
	c.times.addEarlierWait(now)
	result, after := c.sendToNextEngine(now)
	switch {
	case result == sendResultFailed && step == retry.StepResume:
		return sendResultFailed, f // the lack of a free slot is only a consequence of f
	case result == sendResultFailed:
		return sendResultFailed, after
	case result == sendResultQueued && step == retry.StepResume:
		c.slots.slotWait.lost = f
		return sendResultQueued, nil
	case step == retry.StepResume:
		c.recordResume()
		return result, after
	}
	c.services.Counters.countSentElsewhere(step, f)
	if lease := c.attempt.Lease(); f.Doubt != nil && lease != nil {
		lease.SetDisputedRefusal(f.Doubt)
	}
	return result, after
}

// recordResume records that another engine was asked to continue the stream.
func (c *Call) recordResume() {
	c.attemptState.recording.PrepareForNextEngine()
	c.attemptState.stepCounts.CountStep(retry.StepResume)
	c.services.Counters.Resumed.Inc()
}

// excludeForStep excludes the current engine, and all engines that are not suitable for the step.
func (c *Call) excludeForStep(step retry.Step) {
	out := &c.search.excluded
	switch step {
	case retry.StepLongerContext:
		x := c.newContextComparison()
		*out = x.appendTooShort(*out)
	case retry.StepLaterTier:
		a := c.alternativeTargets()
		*out, c.search.usesOverflow = a.exclusionsThroughFailedTier(), true // a call does not queue for a later tier
	case retry.StepResume:
		*out = appendNonContinuingUpstreams(*out, c.config.model.Route.Targets(), c.attemptState.recording.HasReasoning())
	default:
	}
	*out = append(*out, c.attemptState.upstream.ID())
}

// chooseStep chooses the next step, and the change to make if the step is retry.StepChangeRequest.
// If the step needs the retry budget but the budget is empty, chooseStep chooses a step that does
// not need it.
func (c *Call) chooseStep(f *failure.Failure) (retry.Step, requestChange) {
	changed, changeable := c.findRequestChange(f)
	state := c.retryState(f)
	why := retry.Failure{Cause: f.RetryCause(), Elsewhere: f.Retry, Changeable: changeable, Worked: time.Since(c.times.stepStart)}
	step := retry.DecideStep(&state, &why)
	if !retry.UsesRetryBudget(step, &why) || c.services.spendRetryBudget(c.config.snapshot.Config.Retry.Budget) {
		return step, changed
	}
	state.NoBudget = true
	return retry.DecideStep(&state, &why), changed
}

func (c *Call) retryState(f *failure.Failure) retry.CallState {
	s := retry.CallState{
		HasPartialAnswer: c.clientHasPartialAnswer(),
		CannotResend:     c.request.IsConsumed() || c.record.Committed && !c.body.HasBytes(),
		Form:             c.ep.Form, Strict: c.config.model.Rules.Strict,
		Attempts: c.config.snapshot.Config.Retry.Attempts, Sends: c.attemptState.stepCounts,
	}
	if s.HasPartialAnswer {
		s.Resumable = f.CanResume() && c.canResumeNow(time.Now())
		s.Complete = s.Resumable && c.attemptState.recording.HasReachedTokenLimit(&c.request.Chat().Tokens)
		return s
	}
	s.BodyFails = f.MessageHash != 0 && c.fingerprint.hasFailed(time.Now())
	if c.attempt.Target() != nil {
		a, t := c.alternativeTargets(), &c.search
		asked := routing.Query{Pool: t.pool, Key: c.record.Key, Needs: t.neededFeatures, Now: time.Now()}
		s.Room, s.Below = a.hasFreeTarget(c.config.model.Route, &asked), c.hasFallback() || a.hasLaterTier()
		if f.API.Code == apierr.CodeContextLength {
			x := c.newContextComparison()
			s.Longer = x.fitsElsewhere()
		}
	}
	return s
}

func (c *Call) finalFailure(f *failure.Failure) *failure.Failure {
	t := &c.attemptState
	if t.resentInDoubt && f.Outcome != upstreams.OutcomeRejected {
		// The client gets the first refusal, because no other engine has accepted the request.
		return t.firstFailure
	}
	if f.API.Code == apierr.CodeContextLength && !c.config.model.Rules.Strict && c.attempt.Target() != nil && !c.ep.Form {
		x := c.newContextComparison()
		x.explainOverflow(f)
	}
	return f
}

func (c *Call) noTargetFailure(err error, now time.Time) *failure.Failure {
	if cause := c.abort.Cause(); cause != nil {
		return failure.FromAbort(cause)
	}
	var full *routing.FullError
	if first := c.attemptState.firstFailure; first != nil && !(c.attemptState.stepCounts.Longer > 0 && errors.As(err, &full)) {
		return first // the client gets the first failure that no resume has repaired
	}
	m := c.config.model
	// No attempt has set the arm, so the call counts for the arm of its key or conversation.
	if c.attemptCount() == 0 && isCountedByArm(m) {
		c.record.Arm = cmp.Or(routing.CallArmName(m.Route, c.callArms(), c.keyTiers()), observe.NoArm)
	}
	if errors.Is(err, errTotalTimeout) {
		return failure.GenerationTimeout(upstreams.CauseTotalTimeout, err)
	}
	next := m.Route.EstimateAcceptDelay(c.keyTiers(), now)
	after, isMinimum := failure.PoolRetryAfter(m, c.search.pool)
	if isMinimum && errors.As(err, &full) {
		after = full.RetryAfter(after, m.WaitingCallCount())
	}
	return failure.FromRoutingError(err, after, next)
}

// endFailedAttempt ends a failed attempt. If begun is true, the engine had begun to answer, so the
// request is not suspected of having killed the engine.
func (c *Call) endFailedAttempt(f *failure.Failure, begun bool, now time.Time) {
	c.fingerprint.recordLoss(f, begun, c.attemptState.upstream, now)
	if first := c.attemptState.firstFailure; f.MessageHash != 0 {
		c.fingerprint.recordFailure(now)
		// Two engines failed in the same way, so the request is to blame.
		if first != nil && first.MessageHash == f.MessageHash {
			f.Outcome = upstreams.OutcomeRejected
		}
	}
	c.endAndBlameAttempt(f, now)
}

// sameEnginePause is the pause before another request to an engine that temporarily could not
// answer.
const sameEnginePause = 300 * time.Millisecond

// sleepUnlessCanceled waits for t. It returns false if the call is canceled.
func sleepUnlessCanceled(abort *attempt.Canceler, t time.Duration) bool {
	done, ok := abort.Done()
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
