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

// State is an upstream's state.
type State uint8

// The states. Pending lasts until the first probe; retiring until the last lease is back. A
// stalled upstream answers its probes and has work, but nothing moves. A busy upstream has work and
// does not answer its probes (busy.go).
const (
	StatePending State = iota
	StateUp
	StateDown
	StateRetiring
	StateStalled
	StateBusy
)

// String returns the state's name: pending, up, down, retiring, stalled or busy.
func (s State) String() string {
	return [...]string{"pending", "up", "down", "retiring", "stalled", "busy"}[s]
}

// takesCalls reports whether calls may be sent in this state, even if only as a last resort.
func (s State) takesCalls() bool { return s == StateUp || s == StatePending || s == StateStalled }

// unreachableRow is the number of calls in a row that must fail to reach the engine to take it down
// without a probe.
const unreachableRow = 2

// liveness is the state machine that decides between up and down. It is pure: the caller
// serialises the calls.
//
// Probes decide by thresholds. Calls outrank probes. A call that cannot reach the engine makes the
// upstream suspect. A single failed probe or a second such call then takes the upstream down.
type liveness struct {
	fall, rise int

	state State
	bad   int // probes in a row that contradict state

	suspect       bool
	unreachable   int           // unreachable calls in a row, from independent sources
	unreachableBy FailureSource // the source of the first of these
}

// serves reports whether the engine is alive, according to its probes or its work.
func (l *liveness) serves() bool { return l.state == StateUp || l.state == StateBusy }

// probe applies a probe's verdict.
func (l *liveness) probe(v verdict) {
	good := v == verdictGood
	if good {
		l.suspect, l.unreachable = false, 0
	}
	switch {
	case v == verdictFlows:
		l.works()
	case v == verdictWaits && l.serves():
		l.become(StateBusy)
	case (l.state == StatePending || l.state == StateBusy) && good:
		l.become(StateUp)
	case l.state == StatePending, l.serves() && !good && l.suspect, l.state == StateBusy && v == verdictGone:
		l.become(StateDown)
	case l.serves() == good:
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

// works records a sign of work that came although a probe got no answer. The sign outranks that
// probe and earlier failed probes.
func (l *liveness) works() {
	if l.serves() {
		l.become(StateUp)
	}
}

func (l *liveness) become(s State) {
	l.state, l.bad, l.suspect, l.unreachable = s, 0, false, 0
}

// outcome records a call's outcome, and reports whether a probe should follow at once.
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

// unreachableCall records a call that could not reach the engine. If the request reached the engine
// before the connection ended, the request may itself be the cause. A second such call from the
// same client therefore does not take the engine down: the probe decides.
func (l *liveness) unreachableCall(by FailureSource) (look bool) {
	if !l.serves() && l.state != StatePending {
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

// Health knows from probes and calls whether an upstream is up.
type Health struct {
	state    atomic.Uint32 // a State, never retiring
	suspect  atomic.Bool   // the upstream is suspect, so calls must report their outcomes
	returned atomic.Int64  // when it last came back from down (ticks); 0: never
	silent   atomic.Bool   // down, and its running calls will get no answer
	quiet    atomic.Int64  // last sign (ticks) of a suspected busy upstream; 0: not suspected
	unheard  atomic.Bool   // it has been silent for so long that calls leave it

	Wake wake.Waker // for an engine that is down or asleep

	mu    sync.Mutex // held only for bookkeeping, never during I/O
	facts healthFacts

	hooks *hooks
	back  func() // called just before the upstream comes up from down
}

// healthFacts holds what is known about an upstream's health.
type healthFacts struct {
	machine  liveness
	stalled  bool      // no work moves; see stall.go
	changed  time.Time // when the state last changed
	downs    uint64    // times that it went down or stalled
	probedAt time.Time
	check    *LastCheck // immutable once set, like failure
	failure  *LastFailure
}

// LastCheck is the result of the last probe.
type LastCheck struct {
	OK           bool    `json:"ok"`
	Reason       string  `json:"reason,omitempty"` // why it failed
	Status       int     `json:"status,omitempty"` // status of the engine's answer
	Milliseconds float64 `json:"milliseconds"`
}

// LastFailure is the newest failure, for the state page.
type LastFailure struct {
	At     time.Time `json:"at"`
	During string    `json:"during"`           // probe, call
	Reason string    `json:"reason"`           // a Cause
	Detail string    `json:"detail,omitempty"` // why the connect failed: http1.Failure.Detail
	Status int       `json:"status,omitempty"`
}

// Why returns the cause with its detail: "tls: tls: failed to verify certificate: …".
func (f *LastFailure) Why() string {
	if f.Detail == "" {
		return f.Reason
	}
	return f.Reason + ": " + f.Detail
}

// Note records why a call failed, for the state page: the cause, the detail of a failed connect
// (or ""), and the engine's status (0 without an answer).
func (h *Health) Note(cause Cause, detail string, status int, now time.Time) {
	h.mu.Lock()
	h.facts.failure = &LastFailure{At: now, During: "call", Reason: string(cause), Detail: detail, Status: status}
	h.mu.Unlock()
}

func (h *Health) now() State { return State(h.state.Load()) }

// outcome records a call's outcome, and reports whether a probe should follow at once. In the
// normal case it takes no lock.
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

// verdict is the conclusion from a probe, given the engine's calls.
type verdict uint8

const (
	verdictGood  verdict = iota
	verdictBad           // a bad answer, or a failure of unknown cause
	verdictGone          // the engine is gone: the connection was refused or reset
	verdictWaits         // no answer in time, while a call runs
	verdictFlows         // no answer in time, while calls receive answers
)

// probeResult is the result of a probe.
type probeResult struct {
	good    bool
	flows   bool // calls received answers since the previous probe
	working bool // the engine has calls
	lives   bool // no new connection was accepted, but the host answers on open ones
	status  int
	err     error
	took    time.Duration
}

// verdict judges the result. An engine that does not answer a probe in time may be working. An
// accepted connection proves nothing more, because the kernel also accepts connections for a
// stopped process.
func (r *probeResult) verdict() verdict {
	var f *http1.Failure
	switch {
	case r.good:
		return verdictGood
	case !errors.As(r.err, &f):
		return verdictBad
	case f.Kind == http1.Timeout && (f.Clock != http1.ClockConnect || r.lives):
		switch {
		case r.flows:
			return verdictFlows
		case r.working:
			return verdictWaits
		}
	case f.Kind == http1.Unreachable &&
		(f.Reason == http1.ReasonConnect || f.Reason == http1.ReasonReset || f.Reason == http1.ReasonEOF):
		return verdictGone
	}
	return verdictBad
}

// probeEnded records a probe's result and reports whether the engine is alive.
func (h *Health) probeEnded(r probeResult) (serves bool) {
	now := time.Now()
	cause := "probe answered"
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.probedAt = now
	h.facts.check = &LastCheck{OK: r.good, Status: r.status, Milliseconds: float64(r.took.Microseconds()) / 1000}
	if !r.good {
		h.facts.check.Reason = engine.ReasonOf(r.err)
		f := &LastFailure{At: now, During: "probe", Reason: h.facts.check.Reason, Detail: engine.DetailOf(r.err), Status: r.status}
		h.facts.failure = f
		if cause += " " + strconv.Itoa(r.status); r.err != nil {
			cause = "probe failed: " + f.Why()
		}
	}
	r.working = r.working && !h.facts.stalled // the engine's work stands still
	h.facts.machine.probe(r.verdict())
	h.publish(cause, now)
	return h.facts.machine.serves()
}

// endBusy ends the busy state: the upstream is up if the engine works, or down.
func (h *Health) endBusy(works bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := &h.facts.machine; {
	case m.state != StateBusy:
		return
	case works:
		m.works()
	default:
		m.become(StateDown)
		h.silent.Store(true)
	}
	h.publish(cause, now)
}

// Silent reports whether the upstream is down because it answers neither its probes nor its calls,
// as a stopped process does: waiting calls will get no answer. An upstream that is down because it
// refuses connections may still finish its calls.
func (h *Health) Silent() bool { return h.silent.Load() }

// Unheard reports whether the upstream is busy, answers no probe, and has been silent for longer
// than its work explains. It may have stopped.
func (h *Health) Unheard() bool { return h.unheard.Load() }

// setUnheard records that calls should leave a busy upstream.
func (h *Health) setUnheard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unheard.Store(h.now() == StateBusy)
}

// setSuspected records the start of the silence that puts a busy upstream in doubt. It reports
// whether the doubt is new.
func (h *Health) setSuspected(since time.Time) (begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now() == StateBusy && h.quiet.Swap(ticks(since)) == 0
}

// suspectedSince returns the time of the last sign of a suspected busy upstream.
func (h *Health) suspectedSince() (since int64, suspected bool) {
	since = h.quiet.Load()
	return since, since != 0
}

// StalledSince returns the time at which the upstream was taken out because its work did not move.
func (h *Health) StalledSince() (since time.Time, stalled bool) {
	if h.now() != StateStalled {
		return time.Time{}, false
	}
	return h.read().changed, true
}

// setStalled records whether the upstream has stalled.
func (h *Health) setStalled(stalled bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.stalled = stalled
	h.publish(cause, now)
}

// distrust lets a single bad probe take the upstream down.
func (h *Health) distrust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.machine.suspect = true
	h.suspect.Store(true)
}

// setThresholds applies new thresholds.
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
	if h.facts.stalled && h.facts.machine.serves() {
		state = StateStalled
	}
	if state == before {
		return
	}
	h.quiet.Store(0)
	h.unheard.Store(false)
	if state == StateUp && (before == StateDown || before == StateStalled) {
		h.back()
		h.returned.Store(ticks(now))
	}
	if before == StateStalled && state == StateDown {
		h.silent.Store(h.facts.check != nil && h.facts.check.Status == 0)
	} else if state != StateDown {
		h.silent.Store(false)
	}
	h.facts.changed = now
	if state == StateDown && before != StateStalled || state == StateStalled && before != StateDown {
		h.facts.downs++
	}
	h.state.Store(uint32(state))
	if state == StateUp || state == StateStalled || state == StateBusy {
		h.Wake.Here(now)
	} else {
		h.Wake.Away(now)
	}
	level, remedy := zap.InfoLevel, zap.Skip()
	switch state {
	case StateDown:
		level, remedy = zap.WarnLevel, zap.String("remedy", "penstock explain PenstockUpstreamDown")
	case StateStalled:
		level, remedy = zap.WarnLevel, zap.String("remedy", "penstock explain PenstockUpstreamStalled")
	case StatePending, StateUp, StateRetiring, StateBusy:
	}
	h.hooks.log.Log(level, "upstream changed state", zap.String("event", "upstream_"+state.String()),
		zap.Stringer("from", before), zap.Stringer("to", state), zap.String("cause", cause), remedy)
	h.hooks.room()
}

// lastFailure describes the newest failure to an operator.
func (h *Health) lastFailure() string {
	f := h.read().failure
	switch {
	case f == nil:
		return "no failure is known"
	case f.Reason == string(CauseStatus):
		return fmt.Sprintf("last %s failed (status %d)", f.During, f.Status)
	case f.Status != 0:
		return fmt.Sprintf("last %s failed (%s, status %d)", f.During, f.Reason, f.Status)
	}
	return fmt.Sprintf("last %s failed (%s)", f.During, f.Reason)
}
