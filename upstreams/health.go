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

// acceptsCalls reports whether an upstream in this state may get calls, possibly only as a last
// resort.
func (s State) acceptsCalls() bool { return s == StateUp || s == StatePending || s == StateStalled }

// unreachableCallsUntilDown is how many consecutive calls must fail to reach the engine before it goes
// down without a probe.
const unreachableCallsUntilDown = 2

// livenessState is the state machine for up and down. It does no I/O. The caller serialises the method
// calls.
//
// Probes decide by thresholds. Results of calls outrank probes. A call that cannot reach the engine
// marks the upstream suspect. A single failed probe or a second such call then takes the upstream
// down.
type livenessState struct {
	fall, rise int

	state          State
	contradictions int // consecutive probes that contradicted the state

	isSuspect     bool
	unreachable   int           // consecutive calls from independent sources that could not reach the engine
	unreachableBy FailureSource // source of the first call counted in unreachable
}

// isServing reports whether probes or progress on calls show that the engine is alive.
func (l *livenessState) isServing() bool { return l.state == StateUp || l.state == StateBusy }

func (l *livenessState) recordProbe(v probeVerdict) {
	good := v == verdictGood
	if good {
		l.isSuspect, l.unreachable = false, 0
	}
	switch {
	case v == verdictProgress:
		l.recordProgress()
	case v == verdictBusy && l.isServing():
		l.setState(StateBusy)
	case (l.state == StatePending || l.state == StateBusy) && good:
		l.setState(StateUp)
	case l.state == StatePending, l.isServing() && !good && l.isSuspect, l.state == StateBusy && v == verdictUnreachable:
		l.setState(StateDown)
	case l.isServing() == good:
		l.contradictions = 0
	default:
		l.contradictions++
		if good && l.contradictions >= l.rise {
			l.setState(StateUp)
		} else if !good && l.contradictions >= l.fall {
			l.setState(StateDown)
		}
	}
}

// recordProgress records progress on calls during a probe that timed out. Progress outranks that
// probe and earlier failed probes.
func (l *livenessState) recordProgress() {
	if l.isServing() {
		l.setState(StateUp)
	}
}

func (l *livenessState) setState(s State) {
	l.state, l.contradictions, l.isSuspect, l.unreachable = s, 0, false, 0
}

// recordOutcome records the outcome of a call, and reports whether to probe immediately.
func (l *livenessState) recordOutcome(o Outcome, by FailureSource) (look bool) {
	switch o {
	case OutcomeUnreachable:
		return l.recordUnreachable(by)
	case OutcomeTimeout: // a probe finds a frozen engine sooner than more calls would
		return true
	case OutcomeOK, OutcomeRefused, OutcomeRejected, OutcomeModelGone, OutcomeBadResponse:
		l.unreachable, l.isSuspect = 0, false // the engine responded
	case OutcomeClientGone, OutcomeStalled, OutcomeHandedOver:
	}
	return false
}

// recordUnreachable records a call that could not reach the engine. If the request was sent before
// the connection failed, the request itself may be the cause. A second such call from the same
// client therefore does not take the engine down. In that case, the probe decides.
func (l *livenessState) recordUnreachable(by FailureSource) (look bool) {
	if !l.isServing() && l.state != StatePending {
		return false
	}
	l.isSuspect = true
	switch {
	case l.unreachable == 0:
		l.unreachable, l.unreachableBy = 1, by
	case !by.Sent || !l.unreachableBy.Sent || by.isIndependentOf(l.unreachableBy):
		l.unreachable++
	}
	if l.unreachable >= unreachableCallsUntilDown {
		l.setState(StateDown)
	}
	return true
}

// Health uses probes and calls to track whether an upstream is up.
type Health struct {
	state          atomic.Uint32 // a State, but never StateRetiring
	isSuspect      atomic.Bool   // a failure is unconfirmed, so even a successful call must report its outcome
	cameUpAt       atomic.Int64  // when the upstream last came up from down, in ticks; 0 if never
	isSilent       atomic.Bool   // the upstream is down and will not respond to its running calls
	quietSince     atomic.Int64  // last progress of a suspected busy upstream, in ticks; 0 if not suspected
	retryElsewhere atomic.Bool   // the upstream was silent for so long that its calls are retried elsewhere

	Wake wake.Waker // wakes an engine that is down or asleep

	mu    sync.Mutex // never held during I/O
	facts healthFacts

	hooks    *upstreamHooks
	onReturn func() // called just before the upstream comes up from down
}

type healthFacts struct {
	liveness    livenessState
	isStalled   bool      // no progress; see stall.go
	changedAt   time.Time // when the state last changed
	downCount   uint64    // how many times the upstream went down or stalled
	probedAt    time.Time
	lastCheck   *LastProbe // lastCheck and lastFailure point to immutable values
	lastFailure *LastFailure
}

// LastProbe is the result of the newest probe, for the status page.
type LastProbe struct {
	OK           bool    `json:"ok"`
	Reason       string  `json:"reason,omitempty"` // why the probe failed
	Status       int     `json:"status,omitempty"` // HTTP status of the response
	Milliseconds float64 `json:"milliseconds"`
}

// LastFailure is the newest failure, for the status page.
type LastFailure struct {
	At     time.Time `json:"at"`
	During string    `json:"during"`           // "probe" or "call"
	Reason string    `json:"reason"`           // a Cause
	Detail string    `json:"detail,omitempty"` // details of a failed connection attempt: http1.Failure.Detail
	Status int       `json:"status,omitempty"`
}

// Why returns the cause and its detail, for example "tls: tls: failed to verify certificate: …".
func (f *LastFailure) Why() string {
	if f.Detail == "" {
		return f.Reason
	}
	return f.Reason + ": " + f.Detail
}

// RecordFailure records the failure of a call for the status page. detail describes a failed
// connection attempt, or is "". status is the HTTP status, or 0 if there was no response.
func (h *Health) RecordFailure(cause Cause, detail string, status int, now time.Time) {
	h.mu.Lock()
	h.facts.lastFailure = &LastFailure{At: now, During: "call", Reason: string(cause), Detail: detail, Status: status}
	h.mu.Unlock()
}

func (h *Health) currentState() State { return State(h.state.Load()) }

// recordOutcome records the outcome of a call, and reports whether to probe immediately. For the
// most common outcomes, it acquires no lock.
func (h *Health) recordOutcome(o Outcome, by FailureSource, now time.Time) (look bool) {
	if o != OutcomeUnreachable && !h.isSuspect.Load() {
		return o == OutcomeTimeout
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	look = h.facts.liveness.recordOutcome(o, by)
	h.publishState("calls fail", now)
	return look
}

// probeVerdict is the conclusion drawn from a probe and from progress on the engine's calls.
type probeVerdict uint8

const (
	verdictGood        probeVerdict = iota
	verdictBad                      // a bad response, or a failure of unknown cause
	verdictUnreachable              // connection refused or reset
	verdictBusy                     // timed out while a call was running
	verdictProgress                 // timed out while response bytes were arriving
)

type probeResult struct {
	isHealthy     bool
	hasProgressed bool // response bytes arrived since the previous probe
	hasCalls      bool // the engine has calls
	hostResponds  bool // the host accepts no new connection, but responds on open connections
	status        int
	err           error
	took          time.Duration
}

// verdict judges the result. An engine that does not answer a probe in time may be working. An
// accepted connection proves nothing, because the kernel accepts connections even for a stopped
// process.
func (r *probeResult) verdict() probeVerdict {
	var f *http1.Failure
	switch {
	case r.isHealthy:
		return verdictGood
	case !errors.As(r.err, &f):
		return verdictBad
	case f.Kind == http1.KindTimeout && (f.Clock != http1.TimeoutConnect || r.hostResponds):
		switch {
		case r.hasProgressed:
			return verdictProgress
		case r.hasCalls:
			return verdictBusy
		}
	case f.Kind == http1.KindUnreachable &&
		(f.Reason == http1.ReasonConnect || f.Reason == http1.ReasonReset || f.Reason == http1.ReasonEOF):
		return verdictUnreachable
	}
	return verdictBad
}

// recordProbe records the result of a probe and reports whether the engine is alive.
func (h *Health) recordProbe(r probeResult) (serves bool) {
	now := time.Now()
	cause := "probe answered"
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.probedAt = now
	h.facts.lastCheck = &LastProbe{OK: r.isHealthy, Status: r.status, Milliseconds: float64(r.took.Microseconds()) / 1000}
	if !r.isHealthy {
		h.facts.lastCheck.Reason = engine.FailureReason(r.err)
		f := &LastFailure{At: now, During: "probe", Reason: h.facts.lastCheck.Reason, Detail: engine.FailureDetail(r.err), Status: r.status}
		h.facts.lastFailure = f
		if cause += " " + strconv.Itoa(r.status); r.err != nil {
			cause = "probe failed: " + f.Why()
		}
	}
	r.hasCalls = r.hasCalls && !h.facts.isStalled // a stalled engine is not busy with its calls
	h.facts.liveness.recordProbe(r.verdict())
	h.publishState(cause, now)
	return h.facts.liveness.isServing()
}

// endBusy ends the busy state: the upstream goes up if works is true, and down otherwise.
func (h *Health) endBusy(works bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := &h.facts.liveness; {
	case m.state != StateBusy:
		return
	case works:
		m.recordProgress()
	default:
		m.setState(StateDown)
		h.isSilent.Store(true)
	}
	h.publishState(cause, now)
}

// IsSilent reports whether the upstream is down because it answers neither probes nor calls, like a
// stopped process. The calls that are waiting there will get no response. IsSilent returns false
// for an upstream that is down because it refuses connections. That upstream may still finish its
// calls.
func (h *Health) IsSilent() bool { return h.isSilent.Load() }

// ShouldRetryElsewhere reports whether a busy upstream has been silent for so long that its calls
// should be retried elsewhere, because its process may have stopped.
func (h *Health) ShouldRetryElsewhere() bool { return h.retryElsewhere.Load() }

func (h *Health) setRetryElsewhere() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.retryElsewhere.Store(h.currentState() == StateBusy)
}

// setSuspected records the time of the last progress of a busy upstream that has been silent for
// too long. It returns false if the upstream was already suspected.
func (h *Health) setSuspected(since time.Time) (begins bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.currentState() == StateBusy && h.quietSince.Swap(momentTicks(since)) == 0
}

// suspectedSince returns the time of the last progress of a suspected busy upstream, in ticks.
func (h *Health) suspectedSince() (since int64, suspected bool) {
	since = h.quietSince.Load()
	return since, since != 0
}

// StalledSince returns the time at which the upstream stalled.
func (h *Health) StalledSince() (since time.Time, stalled bool) {
	if h.currentState() != StateStalled {
		return time.Time{}, false
	}
	return h.factsSnapshot().changedAt, true
}

func (h *Health) setStalled(stalled bool, cause string, now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.isStalled = stalled
	h.publishState(cause, now)
}

// markSuspect marks the upstream suspect, so that a single failed probe takes it down.
func (h *Health) markSuspect() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.liveness.isSuspect = true
	h.isSuspect.Store(true)
}

func (h *Health) setThresholds(fall, rise int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.facts.liveness.fall, h.facts.liveness.rise, h.facts.liveness.contradictions = fall, rise, 0
}

func (h *Health) factsSnapshot() healthFacts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.facts
}

// publishAndLogState copies the state to the atomic fields and logs a change. The caller must hold mu.
func (h *Health) publishState(cause string, now time.Time) {
	h.isSuspect.Store(h.facts.liveness.isSuspect || h.facts.liveness.unreachable > 0)
	before, state := h.currentState(), h.facts.liveness.state
	if h.facts.isStalled && h.facts.liveness.isServing() {
		state = StateStalled
	}
	if state == before {
		return
	}
	h.quietSince.Store(0)
	h.retryElsewhere.Store(false)
	if state == StateUp && (before == StateDown || before == StateStalled) {
		h.onReturn()
		h.cameUpAt.Store(momentTicks(now))
	}
	if before == StateStalled && state == StateDown {
		h.isSilent.Store(h.facts.lastCheck != nil && h.facts.lastCheck.Status == 0)
	} else if state != StateDown {
		h.isSilent.Store(false)
	}
	h.facts.changedAt = now
	if state == StateDown && before != StateStalled || state == StateStalled && before != StateDown {
		h.facts.downCount++
	}
	h.state.Store(uint32(state))
	if state == StateUp || state == StateStalled || state == StateBusy {
		h.Wake.RecordReady(now)
	} else {
		h.Wake.RecordAway(now)
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
	h.hooks.wakeWaiting()
}

func (h *Health) lastFailure() string {
	f := h.factsSnapshot().lastFailure
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
