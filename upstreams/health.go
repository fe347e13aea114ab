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

// States of an upstream. An upstream is pending until its first probe, and retiring until its last
// lease is released. A stalled upstream answers its probes, but its calls make no progress. A busy
// upstream has calls and does not answer its probes (busy.go).
const (
	StatePending State = iota
	StateUp
	StateDown
	StateRetiring
	StateStalled
	StateBusy
)

// String returns pending, up, down, retiring, stalled or busy.
func (s State) String() string {
	return [...]string{"pending", "up", "down", "retiring", "stalled", "busy"}[s]
}

// takesCalls reports whether calls may be sent in this state, possibly as a last resort.
func (s State) takesCalls() bool { return s == StateUp || s == StatePending || s == StateStalled }

// unreachableRow consecutive calls that cannot reach the engine take it down without a probe.
const unreachableRow = 2

// liveness is the state machine for up and down. It does no I/O. The caller serialises the method
// calls.
//
// Probes decide by thresholds. Results of calls outrank probes. A call that cannot reach the engine
// marks the upstream suspect. After that, a single failed probe or a second such call takes the
// upstream down.
type liveness struct {
	fall, rise int

	state State
	bad   int // consecutive probes that contradicted the state

	suspect       bool
	unreachable   int           // consecutive calls from independent sources that could not reach the engine
	unreachableBy FailureSource // source of the first call counted in unreachable
}

// serves reports whether probes or progress on calls show a live engine.
func (l *liveness) serves() bool { return l.state == StateUp || l.state == StateBusy }

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

// works records progress on calls during a probe that timed out. Progress outranks that probe and
// earlier failed probes.
func (l *liveness) works() {
	if l.serves() {
		l.become(StateUp)
	}
}

func (l *liveness) become(s State) {
	l.state, l.bad, l.suspect, l.unreachable = s, 0, false, 0
}

// outcome records the outcome of a call, and reports whether to probe immediately.
func (l *liveness) outcome(o Outcome, by FailureSource) (look bool) {
	switch o {
	case OutcomeUnreachable:
		return l.unreachableCall(by)
	case OutcomeTimeout: // a probe finds a frozen engine sooner than more calls would
		return true
	case OutcomeOK, OutcomeRefused, OutcomeRejected, OutcomeModelGone, OutcomeBadResponse:
		l.unreachable, l.suspect = 0, false // the engine responded
	case OutcomeClientGone, OutcomeStalled, OutcomeHandedOver:
	}
	return false
}

// unreachableCall records a call that could not reach the engine. If the request was sent before
// the connection failed, the request itself may be the cause. A second such call from the same
// client therefore does not take the engine down; the probe decides.
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

// Health uses probes and calls to track whether an upstream is up.
type Health struct {
	state    atomic.Uint32 // a State, never retiring
	suspect  atomic.Bool   // even a successful call must report its outcome
	returned atomic.Int64  // when the upstream last came up from down, in ticks; 0 if never
	silent   atomic.Bool   // the upstream is down and will not respond to its running calls
	quiet    atomic.Int64  // last progress of a suspected busy upstream, in ticks; 0 if not suspected
	unheard  atomic.Bool   // the upstream has been silent for so long that calls are retried elsewhere

	Wake wake.Waker // wakes an engine that is down or asleep

	mu    sync.Mutex // never held during I/O
	facts healthFacts

	hooks *hooks
	back  func() // called just before the upstream comes up from down
}

type healthFacts struct {
	machine  liveness
	stalled  bool      // no progress; see stall.go
	changed  time.Time // when the state last changed
	downs    uint64    // how many times the upstream went down or stalled
	probedAt time.Time
	check    *LastCheck // check and failure point to immutable values
	failure  *LastFailure
}

// LastCheck is the result of the newest probe, for the state page.
type LastCheck struct {
	OK           bool    `json:"ok"`
	Reason       string  `json:"reason,omitempty"` // why it failed
	Status       int     `json:"status,omitempty"` // HTTP status of the response
	Milliseconds float64 `json:"milliseconds"`
}

// LastFailure is the newest failure, for the state page.
type LastFailure struct {
	At     time.Time `json:"at"`
	During string    `json:"during"`           // "probe" or "call"
	Reason string    `json:"reason"`           // a Cause
	Detail string    `json:"detail,omitempty"` // details of a failed connect: http1.Failure.Detail
	Status int       `json:"status,omitempty"`
}

// Why returns the cause and its detail, for example "tls: tls: failed to verify certificate: …".
func (f *LastFailure) Why() string {
	if f.Detail == "" {
		return f.Reason
	}
	return f.Reason + ": " + f.Detail
}

// Note records the failure of a call for the state page. detail describes a failed connect, or is
// "". status is the HTTP status, or 0 if there was no response.
func (h *Health) Note(cause Cause, detail string, status int, now time.Time) {
	h.mu.Lock()
	h.facts.failure = &LastFailure{At: now, During: "call", Reason: string(cause), Detail: detail, Status: status}
	h.mu.Unlock()
}

func (h *Health) now() State { return State(h.state.Load()) }

// outcome records the outcome of a call, and reports whether to probe immediately. It takes no lock
// for the most common outcomes.
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

// verdict is the conclusion drawn from a probe and from progress on the engine's calls.
type verdict uint8

const (
	verdictGood  verdict = iota
	verdictBad           // a bad response, or a failure of unknown cause
	verdictGone          // connection refused or reset
	verdictWaits         // timed out while a call runs
	verdictFlows         // timed out while response bytes arrive
)

type probeResult struct {
	good    bool
	flows   bool // response bytes arrived since the previous probe
	working bool // the engine has calls
	lives   bool // the host accepted no new connection, but responds on open ones
	status  int
	err     error
	took    time.Duration
}

// verdict judges the result. An engine that does not answer a probe in time may be working. An
// accepted connection proves nothing, because the kernel also accepts connections for a stopped
// process.
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

// probeEnded records the result of a probe and reports whether the engine is alive.
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
	r.working = r.working && !h.facts.stalled // a stalled engine makes no progress on its calls
	h.facts.machine.probe(r.verdict())
	h.publish(cause, now)
	return h.facts.machine.serves()
}

// endBusy ends the busy state: the upstream goes up if works is true, and down otherwise.
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

// Silent reports whether the upstream is down because it answers neither probes nor calls, like a
// stopped process. The calls that wait there will get no response. Silent returns false for an
// upstream that is down because it refuses connections. That upstream may still finish its calls.
func (h *Health) Silent() bool { return h.silent.Load() }

// Unheard reports whether a busy upstream has been silent for so long that calls should be retried
// elsewhere. Its process may have stopped.
func (h *Health) Unheard() bool { return h.unheard.Load() }

func (h *Health) setUnheard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unheard.Store(h.now() == StateBusy)
}

// setSuspected records the time of the last progress of a busy upstream that has been silent for
// too long. It returns false if the upstream was already suspected.
func (h *Health) setSuspected(since time.Time) (begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now() == StateBusy && h.quiet.Swap(ticks(since)) == 0
}

// suspectedSince returns the time (ticks) of the last progress of a suspected busy upstream.
func (h *Health) suspectedSince() (since int64, suspected bool) {
	since = h.quiet.Load()
	return since, since != 0
}

// StalledSince returns when the upstream stalled.
func (h *Health) StalledSince() (since time.Time, stalled bool) {
	if h.now() != StateStalled {
		return time.Time{}, false
	}
	return h.read().changed, true
}

func (h *Health) setStalled(stalled bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.stalled = stalled
	h.publish(cause, now)
}

// distrust marks the upstream suspect, so that a single failed probe takes it down.
func (h *Health) distrust() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.machine.suspect = true
	h.suspect.Store(true)
}

func (h *Health) setThresholds(fall, rise int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.machine.fall, h.facts.machine.rise, h.facts.machine.bad = fall, rise, 0
}

func (h *Health) read() healthFacts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts
}

// publish copies the machine's state to the atomics and logs a change. The caller holds mu.
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
