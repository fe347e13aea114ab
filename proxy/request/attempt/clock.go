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

// afterFinish is the time allowed for a stream to send usage and [DONE] after all its choices have
// finished.
const afterFinish = 2 * time.Second

// lookEvery is the interval at which a call checks its engine once the engine has been silent for
// progress.Patience.
const lookEvery = time.Second

// clock decides which of a model's time limits applies to a reply.
type clock struct {
	limits  *config.Timeouts
	up      *upstreams.Upstream
	lease   *upstreams.Lease
	mover   Mover
	start   instant.Time // start of the call
	streams bool         // the client gets the answer as it is generated
	headed  bool         // the reply's head has arrived, with a 200
	begun   bool         // the reply's first event has arrived

	sentAt     instant.Time  // when the request was written
	loadedAt   instant.Time  // when the engine was last seen to load the model
	readAt     instant.Time  // when the last bytes of the reply arrived
	completeAt instant.Time  // when every choice had its finish reason
	blocked    time.Duration // how long the client held up an answer that is passed on
	until      instant.Time  // when the reader stops waiting; 0: the limits decide
	lookedAt   instant.Time  // when the engine was last checked

	waits    bool // the lease counts this call as waiting for its engine
	excused  bool // the engine is working, so silence is no failure
	buffered bool // the answer has a tool call, which the engine may hold back
}

// limit returns the given limit, unless it is 0. In that case the limit depends on the engine's
// progress: progress.Ceiling for an engine that works or buffers, and unseen for any other engine.
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

// idle returns how long the reply may be silent once it has started.
func (c *clock) idle() time.Duration { return c.limit(c.limits.Idle, config.IdleUnseen) }

// look returns the time at which to check the engine next; 0: no check.
func (c *clock) look() instant.Time {
	if c.completeAt != 0 {
		return 0
	}
	return max(c.readAt.After(progress.Patience), c.lookedAt.After(lookEvery))
}

// from returns the earliest time at which the engine could start to work on the request.
func (c *clock) from() instant.Time { return max(c.sentAt, c.loadedAt) }

// lookAtLoad records whether the engine is still loading the model for this call. While the engine
// is loading, the answer's clocks are restarted, but for at most progress.Ceiling.
func (c *clock) lookAtLoad(now instant.Time) {
	if !c.begun && now < c.sentAt.After(progress.Ceiling) && c.lease.Loads() {
		c.loadedAt = now
	}
}

// next returns when to judge the reply if nothing arrives.
func (c *clock) next() instant.Time {
	at, _ := c.deadline()
	return instant.Earlier(at, c.look())
}

// lookAt checks whether the engine is working. It returns true if the engine has forgotten the
// call.
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

// heard records that the call no longer waits for the engine.
func (c *clock) heard() {
	if c.waits {
		c.waits = false
		c.lease.Waits(-1)
	}
}

// deadline returns the time after which the engine has been silent for too long, and the limit that
// applies. It returns zero if there is no limit.
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

// complete records that every choice has its finish reason.
func (c *clock) complete() {
	if c.completeAt == 0 {
		c.completeAt = c.readAt
	}
}

// overdue reports whether a complete reply has used up its time for usage and [DONE].
func (c *clock) overdue() bool {
	return c.completeAt != 0 && c.completeAt.After(afterFinish).Passed()
}

// judge decides what an engine's silence means. It returns nil while the silence is acceptable, and
// an error once the silence has lasted too long. It also returns an error if the call leaves its
// upstream. A call leaves an upstream that is or may be stalled, that is down and silent, or whose
// drain time is over.
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

// errLost ends a call that the engine has forgotten.
var errLost = errors.New("the engine is working on fewer requests than it was given")

// Mover moves a call to another engine.
type Mover interface {
	// Leave takes a slot at another engine for the call, which then leaves its current engine. The new
	// engine starts the answer anew, or continues what the client has received. Leave returns false if
	// there is no slot, or if the call may no longer leave.
	Leave() bool
}
