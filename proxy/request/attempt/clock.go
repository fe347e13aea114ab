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

// afterFinish is how long an engine may take to send usage and [DONE] after all choices have
// finished.
const afterFinish = 2 * time.Second

// lookEvery is how often a call checks its engine once the engine has been silent for
// progress.Patience.
const lookEvery = time.Second

// clock enforces a model's time limits on one response.
type clock struct {
	limits  *config.Timeouts
	up      *upstreams.Upstream
	lease   *upstreams.Lease
	mover   Mover
	start   instant.Time
	streams bool
	headed  bool // whether the headers of a usable response have arrived
	begun   bool

	sentAt     instant.Time
	loadedAt   instant.Time // when the engine was last known to be loading the model
	readAt     instant.Time
	completeAt instant.Time
	blocked    time.Duration // how long the client has blocked the relay of the answer
	until      instant.Time  // deadline of the current read; 0 if the read has no deadline
	lookedAt   instant.Time

	waits    bool // whether the lease counts this call as waiting for its engine
	excused  bool // whether the engine is known to be working, so that its silence is not a failure
	buffered bool // whether the engine may buffer the answer because of a tool call
}

// limit returns the configured limit if it is set. If it is not set, limit returns progress.Ceiling
// for an engine that is working or buffering, and the argument unseen for any other engine.
func (c *clock) limit(given, unseen config.Duration) time.Duration {
	switch {
	case given > 0:
		return given.D()
	case c.excused || c.buffered:
		return progress.Ceiling
	}
	return unseen.D()
}

func (c *clock) firstEvent() time.Duration {
	return c.limit(c.limits.FirstEvent, config.FirstEventUnseen)
}

func (c *clock) idle() time.Duration { return c.limit(c.limits.Idle, config.IdleUnseen) }

// look returns when the next check of the engine is due, or 0 if no check is due.
func (c *clock) look() instant.Time {
	if c.completeAt != 0 {
		return 0
	}
	return max(c.readAt.After(progress.Patience), c.lookedAt.After(lookEvery))
}

// from returns the earliest time at which the engine could have started to process the request.
func (c *clock) from() instant.Time { return max(c.sentAt, c.loadedAt) }

// lookAtLoad records whether the engine is loading the model. While it is loading, the time limits
// of the response start over, for at most progress.Ceiling.
func (c *clock) lookAtLoad(now instant.Time) {
	if !c.begun && now < c.sentAt.After(progress.Ceiling) && c.lease.Loads() {
		c.loadedAt = now
	}
}

func (c *clock) next() instant.Time {
	at, _ := c.deadline()
	return instant.Earlier(at, c.look())
}

// lookAt checks whether the engine is working. lost is true if the engine no longer has the
// request.
func (c *clock) lookAt(now instant.Time) (lost bool) {
	if at := c.look(); at == 0 || now < at {
		return false
	}
	c.lookedAt = now
	if !c.waits {
		c.waits = true
		c.lease.Waits(1)
	}
	c.excused = c.up.Progress.Works(now.Std())
	return c.up.Progress.Lost(c.readAt.Std(), now.Std())
}

func (c *clock) heard() {
	if c.waits {
		c.waits = false
		c.lease.Waits(-1)
	}
}

// deadline returns when the wait for the engine ends, and limit, the cause of the failure if the
// response has not arrived by then. If no time limit applies, at is zero.
func (c *clock) deadline() (at instant.Time, limit upstreams.Cause) {
	switch {
	case c.completeAt != 0:
		at = c.completeAt.After(afterFinish)
	case c.streams && !c.begun:
		at, limit = c.from().After(c.firstEvent()), upstreams.CauseFirstEventTimeout
	case c.headed:
		at = max(c.readAt, c.loadedAt).After(c.idle())
		limit = upstreams.CauseIdleTimeout
	}
	if !c.streams {
		if answer := c.from().After(c.limits.Answer.D() + c.blocked); at == 0 || answer < at {
			at, limit = answer, upstreams.CauseAnswerTimeout
		}
	}
	if total := c.limits.Total.D(); total > 0 {
		if end := c.start.After(total); at == 0 || end < at {
			at, limit = end, upstreams.CauseTotalTimeout
		}
	}
	return at, limit
}

func (c *clock) complete() {
	if c.completeAt == 0 {
		c.completeAt = c.readAt
	}
}

func (c *clock) overdue() bool {
	return c.completeAt != 0 && c.completeAt.After(afterFinish).Passed()
}

// judge decides whether a call may continue to wait for a silent engine. It returns an error:
//
//   - if the engine no longer has the request;
//   - if the upstream is stalled, may be stalled, or has exceeded its drain time, and the call can
//     move to another upstream;
//   - if the upstream is down;
//   - if a time limit has expired.
func (c *clock) judge(now instant.Time) error {
	c.lookAtLoad(now)
	if lost := c.lookAt(now); lost {
		return failure.GenerationTimeout(upstreams.CauseForgotten, errLost)
	}
	switch {
	case !c.waits:
	case (c.up.State() == upstreams.StateStalled || c.up.Health.Unheard()) && c.mover.Leave():
		return failure.Stalled()
	case upstreams.HandsOver(c.up) && c.mover.Leave():
		return failure.HandedOver()
	case c.up.Health.Silent():
		return failure.EngineDown()
	}
	if at, limit := c.deadline(); at.Passed() && c.completeAt == 0 {
		return failure.GenerationTimeout(limit, http1.ErrNotYet)
	}
	return nil
}

// errLost is the cause of the failure when the engine no longer has the request.
var errLost = errors.New("the engine is working on fewer requests than it was given")

// Mover moves a call to another engine.
type Mover interface {
	// Leave acquires a slot at another engine, and the call then moves to it. The new engine either
	// restarts the answer or continues the part that the client has already received. Leave returns
	// false if no slot is free or the call can no longer move.
	Leave() bool
}
