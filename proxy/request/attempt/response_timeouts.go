package attempt

import (
	"errors"
	"time"

	"penstock/config"
	"penstock/config/instant"
	"penstock/proxy/request/failure"
	"penstock/upstreams"
	"penstock/upstreams/http1"
	"penstock/upstreams/progress"
)

// tailTimeout is how long an engine may take to send usage and [DONE] after all choices have
// finished.
const tailTimeout = 2 * time.Second

// checkInterval is how often a call checks its engine after the engine has been silent for
// progress.WaitingAfter.
const checkInterval = time.Second

// responseTimeouts enforces a model's time limits on one response.
type responseTimeouts struct {
	limits      *config.Timeouts
	upstream    *upstreams.Upstream
	lease       *upstreams.Lease
	mover       CallMover
	callStart   instant.Time
	isStream    bool
	headArrived bool // whether the headers of a usable response have arrived
	answerBegun bool

	countedWaiting bool // whether the lease counts this call as waiting for its engine
	engineWorking  bool // whether the engine is known to be working, so that its silence is not a failure
	mayBuffer      bool // whether the engine may buffer the answer because of a tool call

	sentAt        instant.Time
	lastLoadingAt instant.Time // when the engine was last known to be loading the model
	readAt        instant.Time
	completeAt    instant.Time
	clientBlocked time.Duration // how long the client has blocked the relay of the answer in total
	readDeadline  instant.Time  // deadline of the current read; 0 if the read has no deadline
	checkedAt     instant.Time
}

// limitOrDefault returns the configured limit if it is set. If the limit is not set, limitOrDefault
// returns progress.MaxSilence for an engine that is working or buffering, and unseen for any other
// engine.
func (c *responseTimeouts) limitOrDefault(given, unseen config.Duration) time.Duration {
	switch {
	case given > 0:
		return given.D()
	case c.engineWorking || c.mayBuffer:
		return progress.MaxSilence
	}
	return unseen.D()
}

func (c *responseTimeouts) firstEventTimeout() time.Duration {
	return c.limitOrDefault(c.limits.FirstEvent, config.FirstEventTimeoutWithoutProgress)
}

func (c *responseTimeouts) idleTimeout() time.Duration {
	return c.limitOrDefault(c.limits.Idle, config.IdleTimeoutWithoutProgress)
}

// nextCheckAt returns the time at which the next check of the engine is due, or 0 if no check is
// due.
func (c *responseTimeouts) nextCheckAt() instant.Time {
	if c.completeAt != 0 {
		return 0
	}
	return max(c.readAt.Add(progress.WaitingAfter), c.checkedAt.Add(checkInterval))
}

// processingStart returns the earliest time at which the engine could have started to process the
// request.
func (c *responseTimeouts) processingStart() instant.Time { return max(c.sentAt, c.lastLoadingAt) }

// recordModelLoading records whether the engine is loading the model. While it is loading, the time
// limits of the response start over, for at most progress.MaxSilence.
func (c *responseTimeouts) recordModelLoading(now instant.Time) {
	if !c.answerBegun && now < c.sentAt.Add(progress.MaxSilence) && c.lease.IsLoading() {
		c.lastLoadingAt = now
	}
}

func (c *responseTimeouts) nextWakeup() instant.Time {
	at, _ := c.deadline()
	return instant.Earlier(at, c.nextCheckAt())
}

// updateEngineProgress checks whether the engine is working. lost is true if the engine no longer
// has the request.
func (c *responseTimeouts) updateEngineProgress(now instant.Time) (lost bool) {
	if at := c.nextCheckAt(); at == 0 || now < at {
		return false
	}
	c.checkedAt = now
	if !c.countedWaiting {
		c.countedWaiting = true
		c.lease.AddWaiting(1)
	}
	c.engineWorking = c.upstream.Progress.IsProgressing(now.StdTime())
	return c.upstream.Progress.IsCallLost(c.readAt.StdTime(), now.StdTime())
}

func (c *responseTimeouts) stopCountingAsWaiting() {
	if c.countedWaiting {
		c.countedWaiting = false
		c.lease.AddWaiting(-1)
	}
}

// deadline returns the time at which the wait for the engine ends. limit is the cause of the
// failure if the response has not arrived by then. If no time limit applies, at is zero.
func (c *responseTimeouts) deadline() (at instant.Time, limit upstreams.Cause) {
	switch {
	case c.completeAt != 0:
		at = c.completeAt.Add(tailTimeout)
	case c.isStream && !c.answerBegun:
		at, limit = c.processingStart().Add(c.firstEventTimeout()), upstreams.CauseFirstEventTimeout
	case c.headArrived:
		at = max(c.readAt, c.lastLoadingAt).Add(c.idleTimeout())
		limit = upstreams.CauseIdleTimeout
	}
	if !c.isStream {
		if answer := c.processingStart().Add(c.limits.Answer.D() + c.clientBlocked); at == 0 || answer < at {
			at, limit = answer, upstreams.CauseAnswerTimeout
		}
	}
	if total := c.limits.Total.D(); total > 0 {
		if end := c.callStart.Add(total); at == 0 || end < at {
			at, limit = end, upstreams.CauseTotalTimeout
		}
	}
	return at, limit
}

// timeoutFailure returns the failure for an expired time limit. If timeouts.total ends an answer
// that is being generated, the engine is not at fault.
func (c *responseTimeouts) timeoutFailure(limit upstreams.Cause) *failure.Failure {
	f := failure.GenerationTimeout(limit, http1.ErrNoBytesYet)
	if limit == upstreams.CauseTotalTimeout && c.isGenerating() {
		f.Outcome = upstreams.OutcomeClientGone
	}
	return f
}

// isGenerating reports whether the engine is generating the answer. It is if:
//
//   - it is known to be working;
//   - part of the answer has arrived, and the engine has not fallen silent since;
//   - part of the answer has arrived, and the engine may be buffering the rest.
func (c *responseTimeouts) isGenerating() bool {
	return c.engineWorking || c.answerBegun && (c.mayBuffer || !c.countedWaiting)
}

func (c *responseTimeouts) markAnswerComplete() {
	if c.completeAt == 0 {
		c.completeAt = c.readAt
	}
}

func (c *responseTimeouts) isTailOverdue() bool {
	return c.completeAt != 0 && c.completeAt.Add(tailTimeout).HasPassed()
}

// checkTimeouts decides whether a call may continue to wait for a silent engine. It returns an
// error:
//
//   - if the engine no longer has the request;
//   - if the upstream is stalled, may be stalled, or has exceeded its drain time, and the call can
//     move to another upstream;
//   - if the upstream is down;
//   - if a time limit has expired.
func (c *responseTimeouts) checkTimeouts(now instant.Time) error {
	c.recordModelLoading(now)
	if lost := c.updateEngineProgress(now); lost {
		return failure.GenerationTimeout(upstreams.CauseForgotten, errEngineLostRequest)
	}
	switch {
	case !c.countedWaiting:
	case (c.upstream.State() == upstreams.StateStalled || c.upstream.Health.ShouldRetryElsewhere()) && c.mover.AcquireOtherSlot():
		return failure.EngineStalled()
	case upstreams.ShouldHandOverCalls(c.upstream) && c.mover.AcquireOtherSlot():
		return failure.EngineDraining()
	case c.upstream.Health.IsSilent():
		return failure.EngineDown()
	}
	if at, limit := c.deadline(); at.HasPassed() && c.completeAt == 0 {
		return c.timeoutFailure(limit)
	}
	return nil
}

// errEngineLostRequest is the cause of the failure when the engine no longer has the request.
var errEngineLostRequest = errors.New("the engine is working on fewer requests than it was given")

// CallMover moves a call to another engine.
type CallMover interface {
	// AcquireOtherSlot acquires a slot at another engine and makes the call move to that engine.
	// The other engine starts the answer again, or continues it if the client has already received
	// part of it. AcquireOtherSlot returns false if no slot is free or the call can no longer move.
	AcquireOtherSlot() bool
}
