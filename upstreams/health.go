package upstreams

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/engine"
	"penstock/upstreams/http1"
	"penstock/upstreams/wake"
)

// State is where in its life an upstream is.
type State uint8

// The states. Pending lasts until the first probe; retiring until the last lease is back. Stalled
// is up by its probes, but nothing moves although it has work.
const (
	StatePending State = iota
	StateUp
	StateDown
	StateRetiring
	StateStalled
)

// String returns the state's name: pending, up, down, retiring or stalled.
func (s State) String() string {
	return [...]string{"pending", "up", "down", "retiring", "stalled"}[s]
}

// takesCalls reports whether calls may be sent in this state, if only for want of a better one.
func (s State) takesCalls() bool { return s == StateUp || s == StatePending || s == StateStalled }

// unreachableRow is how many calls in a row that cannot reach the engine take it down without a
// probe.
const unreachableRow = 2

// liveness is the state machine that decides between up and down. It is pure: the caller
// serialises.
//
// Probes decide by thresholds. Calls outrank them: one that cannot reach the engine makes the
// upstream suspect, and then a single failed probe or a second such call takes it down.
type liveness struct {
	fall, rise int

	state State
	bad   int // probes in a row that contradict state

	suspect       bool
	unreachable   int           // independent calls in a row that could not reach the engine
	unreachableBy FailureSource // of the first of them
}

// probe takes a probe's verdict.
func (l *liveness) probe(good bool) {
	if good {
		l.suspect, l.unreachable = false, 0
	}
	switch {
	case l.state == StatePending && good:
		l.become(StateUp)
	case l.state == StatePending, l.state == StateUp && !good && l.suspect:
		l.become(StateDown)
	case (l.state == StateUp) == good:
		l.bad = 0
	default:
		l.bad++
		if good && l.bad >= l.rise {
			l.become(StateUp)
		} else if !good && l.bad >= l.fall {
			l.become(StateDown)
		}
	}
}

// flowed takes answers of calls that came although a probe found no time: they outrank it, and
// those before it.
func (l *liveness) flowed() {
	if l.state == StateUp {
		l.bad, l.suspect, l.unreachable = 0, false, 0
	}
}

func (l *liveness) become(s State) {
	l.state, l.bad, l.suspect, l.unreachable = s, 0, false, 0
}

// outcome takes a call's outcome, and reports whether a probe should look at once.
func (l *liveness) outcome(o Outcome, by FailureSource) (look bool) {
	switch o {
	case OutcomeUnreachable:
		return l.unreachableCall(by)
	case OutcomeTimeout: // a frozen engine is found by its probe sooner than by further calls
		return true
	case OutcomeOK, OutcomeRefused, OutcomeRejected, OutcomeModelGone, OutcomeBadResponse:
		l.unreachable, l.suspect = 0, false // the engine answered
	case OutcomeClientGone, OutcomeStalled, OutcomeHandedOver:
	}
	return false
}

// unreachableCall takes a call that could not reach the engine. A request that did reach it, before
// the connection ended, may itself be the cause. So a second one from the same client does not take
// the engine down: the probe that is asked for decides.
func (l *liveness) unreachableCall(by FailureSource) (look bool) {
	if l.state != StateUp && l.state != StatePending {
		return false
	}
	l.suspect = true
	switch {
	case l.unreachable == 0:
		l.unreachable, l.unreachableBy = 1, by
	case !by.Sent || !l.unreachableBy.Sent || by.independentOf(l.unreachableBy):
		l.unreachable++
	}
	if l.unreachable >= unreachableRow {
		l.become(StateDown)
	}
	return true
}

// Health is whether an upstream is up, as its probes and calls show.
type Health struct {
	state    atomic.Uint32 // a State, never retiring
	suspect  atomic.Bool   // the machine is suspicious, so a call's answer means something to it
	returned atomic.Int64  // when the upstream last came back from down (ticks); 0: never

	Wake wake.Waker // of an engine that is away

	mu    sync.Mutex // held for bookkeeping only, never over I/O
	facts healthFacts

	hooks *hooks
	back  func() // called before an upstream that was down is up
}

// healthFacts is what is known of an upstream's health.
type healthFacts struct {
	machine  liveness
	stalled  bool      // no work moves; see stall.go
	changed  time.Time // when the state last changed
	downs    uint64    // how often it went down or stalled
	probedAt time.Time
	check    *LastCheck // never written again, as is failure
	failure  *LastFailure
}

// LastCheck is how the last probe went.
type LastCheck struct {
	OK           bool    `json:"ok"`
	Reason       string  `json:"reason,omitempty"` // why not
	Status       int     `json:"status,omitempty"` // what the engine answered with
	Milliseconds float64 `json:"milliseconds"`
}

// LastFailure is the newest thing that went wrong, for the state page.
type LastFailure struct {
	At     time.Time `json:"at"`
	During string    `json:"during"` // probe, call
	Reason string    `json:"reason"` // a failure's reason or an outcome, never text of a client's or an engine's
	Status int       `json:"status,omitempty"`
}

// Note records what a call failed of, for the state page: a Failure's reason or an outcome's name,
// and the status that the engine answered with, 0 when it did not.
func (h *Health) Note(reason string, status int, now time.Time) {
	h.mu.Lock()
	h.facts.failure = &LastFailure{At: now, During: "call", Reason: reason, Status: status}
	h.mu.Unlock()
}

func (h *Health) now() State { return State(h.state.Load()) }

// outcome takes a call's outcome, and reports whether a probe should look at once. While nothing is
// wrong it takes no lock.
func (h *Health) outcome(o Outcome, by FailureSource, now time.Time) (look bool) {
	if o != OutcomeUnreachable && !h.suspect.Load() {
		return o == OutcomeTimeout
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	look = h.facts.machine.outcome(o, by)
	h.publish("calls fail", now)
	return look
}

// probeVerdict is how a probe went.
type probeVerdict struct {
	good   bool
	flows  bool // answers of calls have come since the verdict before
	status int
	err    error
	took   time.Duration
}

// outranked reports whether the verdict does not count: the engine had no time for the probe, and
// works for calls.
func (v *probeVerdict) outranked() bool {
	var f *http1.Failure
	return !v.good && v.flows && errors.As(v.err, &f) && f.Kind == http1.Timeout && f.Clock == http1.ClockAnswer
}

// probeEnded takes a probe's verdict over and reports whether the upstream is up now.
func (h *Health) probeEnded(v probeVerdict) (up bool) {
	good, status, err, took := v.good, v.status, v.err, v.took
	now := time.Now()
	cause := "probe answered"
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.probedAt = now
	h.facts.check = &LastCheck{OK: good, Status: status, Milliseconds: float64(took.Microseconds()) / 1000}
	if !good {
		h.facts.check.Reason = engine.ReasonOf(err)
		h.facts.failure = &LastFailure{At: now, During: "probe", Reason: h.facts.check.Reason, Status: status}
		if cause += " " + strconv.Itoa(status); err != nil {
			cause = "probe failed: " + h.facts.check.Reason
		}
	}
	if v.outranked() {
		h.facts.machine.flowed()
	} else {
		h.facts.machine.probe(good)
	}
	h.publish(cause, now)
	return h.facts.machine.state == StateUp
}

// StalledSince returns since when the upstream is out because no work moves.
func (h *Health) StalledSince() (since time.Time, stalled bool) {
	if h.now() != StateStalled {
		return time.Time{}, false
	}
	return h.read().changed, true
}

// setStalled notes that no work moves, or that it does again.
func (h *Health) setStalled(stalled bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.stalled = stalled
	h.publish(cause, now)
}

// distrust makes one bad probe enough to take the upstream down.
func (h *Health) distrust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.machine.suspect = true
	h.suspect.Store(true)
}

// setThresholds takes over other settings.
func (h *Health) setThresholds(fall, rise int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.machine.fall, h.facts.machine.rise, h.facts.machine.bad = fall, rise, 0
}

// read returns a copy of the facts.
func (h *Health) read() healthFacts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts
}

// publish copies the machine's verdict to the atomics and logs a change. The caller holds mu.
func (h *Health) publish(cause string, now time.Time) {
	h.suspect.Store(h.facts.machine.suspect || h.facts.machine.unreachable > 0)
	before, state := h.now(), h.facts.machine.state
	if state == StateUp && h.facts.stalled {
		state = StateStalled
	}
	if state == before {
		return
	}
	if state == StateUp && (before == StateDown || before == StateStalled) {
		h.back()
		h.returned.Store(ticks(now))
	}
	h.facts.changed = now
	if state == StateDown && before != StateStalled || state == StateStalled && before != StateDown {
		h.facts.downs++
	}
	h.state.Store(uint32(state))
	if state == StateUp || state == StateStalled {
		h.Wake.Here(now)
	} else {
		h.Wake.Away(now)
	}
	h.hooks.log.Info("upstream changed state",
		zap.Stringer("from", before), zap.Stringer("to", state), zap.String("cause", cause))
	h.hooks.room()
}

// lastFailure says for an operator what went wrong last.
func (h *Health) lastFailure() string {
	f := h.read().failure
	switch {
	case f == nil:
		return "no failure is known"
	case f.Status != 0:
		return fmt.Sprintf("last %s failed (%s, status %d)", f.During, f.Reason, f.Status)
	}
	return fmt.Sprintf("last %s failed (%s)", f.During, f.Reason)
}
