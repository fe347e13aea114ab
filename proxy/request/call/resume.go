package call

import (
	"time"

	"penstock/config/instant"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/resume"
	"penstock/routing"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// Another engine can continue a stream whose engine was lost. A resume does not use the retry
// budget, because all streams of an engine are lost at the same time.

// wrapRecording wraps the codec of a stream that may be resumed, so that the stream's events are
// recorded. If the stream cannot be resumed, wrapRecording returns codec unchanged.
func (c *Call) wrapRecording(codec endpoint.Stream) endpoint.Stream {
	if c.config.model.Config.Retry.Resume == 0 {
		return codec
	}
	if r := c.request.Chat(); r == nil || !chat.IsResumable(r) {
		return codec
	}
	c.attemptState.recording = resume.NewPartialAnswerRecorder(codec, c.services.Bodies)
	return c.attemptState.recording
}

// isResumable reports whether the stream can still be resumed. If memory is short, it releases the
// recording, so that the stream cannot be resumed (resume.PartialAnswerRecorder.CanContinue). As
// long as isResumable returns true, the request must not be released.
func (c *Call) isResumable() bool {
	return int(c.attemptState.stepCounts.Resumes) < c.config.model.Config.Retry.Resume && c.attemptState.recording.CanContinue()
}

// canResumeNow reports whether another engine may continue the stream now. Like isResumable, it may
// release the recording.
func (c *Call) canResumeNow(now time.Time) bool {
	end := c.totalDeadline()
	return c.isResumable() && c.attemptState.recording.HasNewText() && !c.attemptState.recording.IsFinished() && !c.fingerprint.isBlocked(now) &&
		(end.IsZero() || now.Before(end))
}

// totalDeadline returns the time at which timeouts.total ends the call, or the zero time if the
// setting is off.
func (c *Call) totalDeadline() (end time.Time) {
	if total := c.config.model.Clocks.Total.D(); total > 0 {
		end = c.record.Start.Add(total)
	}
	return end
}

// appendNonContinuingUpstreams appends the ids of the targets that cannot continue an answer.
// reasoned is true if the answer contains reasoning.
func appendNonContinuingUpstreams(ids []upstreams.ID, targets []routing.Target, reasoned bool) []upstreams.ID {
	for i := range targets {
		u := targets[i].Upstream
		if !upstreams.CanContinueAnswers(u) || reasoned && u.Engine().Reasoning().History == "" {
			ids = append(ids, u.ID())
		}
	}
	return ids
}

// leaveRetryInterval is how often a stream on a drained engine tries to acquire a slot at another
// engine.
const leaveRetryInterval = time.Second

// leaveDrainedEngine reports whether the stream leaves its engine because the engine's drain time
// has passed. It returns true only if it has acquired a slot at another engine.
func (c *Call) leaveDrainedEngine() bool {
	t := &c.attemptState
	if t.recording == nil || !upstreams.ShouldHandOverCalls(t.upstream) {
		return false
	}
	now := instant.Now()
	if now.Sub(c.slots.triedMoveAt) < leaveRetryInterval {
		return false
	}
	c.slots.triedMoveAt = now
	return c.AcquireOtherSlot()
}
