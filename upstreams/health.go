package upstreams

import (
	"slices"
	"time"

	"penstock/upstreams/engine"
)

// State is where in its life an upstream is.
type State uint8

// The states. Pending lasts until the first probe; retiring until the last lease is back.
const (
	StatePending State = iota
	StateUp
	StateDown
	StateRetiring
)

// String returns the state's name: pending, up, down or retiring.
func (s State) String() string { return [...]string{"pending", "up", "down", "retiring"}[s] }

// Breaker is the position of an upstream's breaker.
type Breaker uint8

// The positions: closed lets every call through, open none, half-open one at a time.
const (
	BreakerClosed Breaker = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns the position's name: closed, open or half-open.
func (b Breaker) String() string { return [...]string{"closed", "open", "half-open"}[b] }

const (
	// breakerRow is how many failures in a row concern the breaker. As many independent ones open
	// it without a generation probe.
	breakerRow = 5
	// doubtRow is how many failures in a row have a generation probe look after doubtPause.
	doubtRow   = 2
	doubtPause = 500 * time.Millisecond
	// breakerShare is the share of failures in the window that does the same, once the window holds
	// breakerVolume outcomes.
	breakerShare  = 0.5
	breakerVolume = 20
	windowSeconds = 10

	// The breaker stays open for coolDown, twice as long after each trial that failed, up to
	// coolDownMax. A trial may pass and the engine fail all the same, so the wait starts over only
	// when the engine has done well for a while.
	coolDown    = time.Second
	coolDownMax = 15 * time.Second
	// relapse is how long after its closing an opening counts as a trial that failed.
	relapse = 15 * time.Second

	// unreachableRow is how many calls in a row that cannot reach the engine take it down without a
	// probe.
	unreachableRow = 2
)

// health is the state machine of one upstream: it takes the verdicts of probes and the outcomes of
// calls, and decides on state and breaker. It is pure: the caller passes the time and serialises.
//
// Probes decide between up and down by thresholds. Calls outrank them: one that cannot reach the
// engine makes the upstream suspect, and then a single failed probe or a second such call takes it
// down. Calls also drive the breaker, which is about an engine that answers its probes and fails
// its work.
//
// No client opens the breaker alone. Failures of one key, of calls without a key, or of one body
// count once (see evidence). Five independent failures open the breaker. Any other five ask for a
// generation probe: its failure opens the breaker. Its success starts the count over, but fresh
// evidence stays.
type health struct {
	fall, rise int

	state State
	bad   int // probes in a row that contradict state

	suspect       bool
	unreachable   int           // independent calls in a row that could not reach the engine
	unreachableBy FailureSource // of the first of them

	open           bool
	openUntil      time.Time
	reopened       int       // how often the wait was doubled: by failed trials, and by openings soon after a closing
	closedAt       time.Time // when the breaker was last closed; zero: never
	barred         []string  // keys whose calls may not be the trial: their failures opened the breaker, or kept it open
	failures       int       // calls failed in a row
	rowEvidence    evidence  // of these failures
	window         window
	windowEvidence evidence // of the failures in the window
	broken         bool     // a call failed after its answer had begun, and none has succeeded since
	// unprobed says that the edge cannot generate here by itself: the model's kind has no probe, or
	// the engine rejects it.
	unprobed bool
}

// advice is what should follow from a call's outcome.
type advice struct {
	look     bool // a health probe should look at once
	generate bool // a generation probe should confirm that the engine fails
}

// probe takes a probe's verdict.
func (h *health) probe(good bool) {
	if good {
		h.suspect, h.unreachable = false, 0
	}
	switch {
	case h.state == StatePending && good:
		h.become(StateUp)
	case h.state == StatePending, h.state == StateUp && !good && h.suspect:
		h.become(StateDown)
	case (h.state == StateUp) == good:
		h.bad = 0
	default:
		h.bad++
		if good && h.bad >= h.rise {
			h.become(StateUp)
		} else if !good && h.bad >= h.fall {
			h.become(StateDown)
		}
	}
}

func (h *health) become(s State) {
	h.state, h.bad, h.suspect, h.unreachable = s, 0, false, 0
}

// outcome takes a call's outcome. trial says that the call was the one that a half-open breaker let
// through.
func (h *health) outcome(o Outcome, by FailureSource, trial bool, now time.Time) (a advice) {
	switch o {
	case OutcomeUnreachable:
		a.look = h.callUnreachable(by)
	case OutcomeOK, OutcomeRefused, OutcomeRejected, OutcomeModelGone, OutcomeBadResponse:
		h.unreachable, h.suspect = 0, false // the engine answered
	case OutcomeTimeout, OutcomeClientGone:
		a.look = o == OutcomeTimeout // a frozen engine is found by its probe sooner than by further calls
	}
	if h.open && !trial {
		return a // a call from before the breaker opened proves nothing about now
	}
	switch {
	case o == OutcomeOK:
		h.failures, h.rowEvidence, h.unprobed, h.broken = 0, evidence{}, false, false
		h.window.add(false, now)
		if trial {
			h.close(now)
		}
	case o.failed():
		h.failures++
		h.broken = h.broken || by.Begun
		h.rowEvidence.add(by, now)
		h.window.add(true, now)
		h.windowEvidence.expire(now)
		h.windowEvidence.add(by, now)
		a.generate = h.judge(by, trial, now)
	}
	return a
}

// callUnreachable takes a call that could not reach the engine. A request that did reach it, before
// the connection ended, may itself be the cause. So a second one from the same client does not take
// the engine down: the probe that is asked for decides.
func (h *health) callUnreachable(by FailureSource) (look bool) {
	if h.state != StateUp && h.state != StatePending {
		return false
	}
	h.suspect = true
	switch {
	case h.unreachable == 0:
		h.unreachable, h.unreachableBy = 1, by
	case !by.Sent || !h.unreachableBy.Sent || by.independentOf(h.unreachableBy):
		h.unreachable++
	}
	if h.unreachable >= unreachableRow {
		h.become(StateDown)
	}
	return true
}

// inDoubt reports whether a generation probe should look soon, although too few calls have failed in a
// row to ask for one: routing avoids such an engine, so the next failure may be long in coming.
func (h *health) inDoubt() bool { return h.failures >= doubtRow && !h.open && !h.unprobed }

// judge decides after a failure whether the breaker opens, or a generation probe is to decide.
func (h *health) judge(by FailureSource, trial bool, now time.Time) (generate bool) {
	switch {
	case h.open && trial:
		if !slices.Contains(h.barred, by.Key) && !h.unprobed {
			h.barred = append(slices.Clone(h.barred), by.Key) // a new slice: picks read the old one
		}
		h.reopen(now)
		return false
	case h.open:
		return false
	}
	inRow, inWindow := h.failures >= breakerRow, h.window.tripped(now)
	switch {
	case inRow && h.rowEvidence.enough(h.unprobed):
		h.trip(h.rowEvidence.keys(), now)
	case inWindow && h.windowEvidence.enough(h.unprobed):
		h.trip(h.windowEvidence.keys(), now)
	default:
		return (inRow || inWindow) && !h.unprobed
	}
	return false
}

// generation takes the result of a generation probe. trial says that it was the one that a
// half-open breaker let through.
func (h *health) generation(g engine.Generation, trial bool, now time.Time) {
	switch {
	case g == engine.GenerationOK && h.open && trial:
		h.close(now)
	case g == engine.GenerationOK && !h.open:
		h.acquit(now)
	case g == engine.GenerationFailed && !h.open:
		h.unprobed = false
		h.trip(nil, now) // no client's failure opened it, so any key's call may be the trial
	case g == engine.GenerationFailed && trial:
		h.reopen(now)
	case g == engine.GenerationRejected:
		h.unprobed, h.barred = true, nil
		if !h.open && h.failures >= breakerRow && h.rowEvidence.enough(true) {
			h.trip(nil, now)
		}
	}
}

// trip opens the breaker. Calls of the given keys may not be its trial.
func (h *health) trip(barred []string, now time.Time) {
	if h.unprobed {
		barred = nil // otherwise no call could be the trial
	}
	if !h.open && !h.closedAt.IsZero() && now.Sub(h.closedAt) < relapse {
		h.reopened++ // what closed it has shown too little
	} else {
		h.reopened = 0
	}
	h.open, h.barred = true, barred
	h.openUntil = now.Add(h.wait())
}

// wait is how long the breaker stays open.
func (h *health) wait() time.Duration { return min(coolDownMax, coolDown<<min(h.reopened, 8)) }

// reopen follows a failed trial.
func (h *health) reopen(now time.Time) {
	h.reopened++
	h.openUntil = now.Add(h.wait())
}

// close closes the breaker and clears the failures that opened it or might have.
func (h *health) close(now time.Time) {
	h.open, h.barred, h.closedAt = false, nil, now
	h.failures, h.rowEvidence, h.unprobed, h.broken = 0, evidence{}, false, false
	h.window, h.windowEvidence = window{}, evidence{}
}

// acquit follows a generation probe that succeeded while the breaker was closed. The failures so
// far ask for no other probe. Fresh evidence stays, because a probe does not outvote five
// independent failures.
func (h *health) acquit(now time.Time) {
	h.failures, h.unprobed = 0, false
	h.window = window{}
	h.rowEvidence.expire(now)
	h.windowEvidence.expire(now)
}

// window counts outcomes of the last windowSeconds in buckets of a second.
type window struct {
	buckets [windowSeconds]struct {
		second     int64
		all, wrong int
	}
}

func (w *window) add(wrong bool, now time.Time) {
	second := ticks(now) / int64(time.Second)
	b := &w.buckets[((second%windowSeconds)+windowSeconds)%windowSeconds]
	if b.second != second {
		b.second, b.all, b.wrong = second, 0, 0
	}
	b.all++
	if wrong {
		b.wrong++
	}
}

func (w *window) tripped(now time.Time) bool {
	oldest := ticks(now)/int64(time.Second) - windowSeconds
	all, wrong := 0, 0
	for i := range w.buckets {
		if b := &w.buckets[i]; b.second > oldest {
			all, wrong = all+b.all, wrong+b.wrong
		}
	}
	return all >= breakerVolume && float64(wrong) >= breakerShare*float64(all)
}
