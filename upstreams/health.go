package upstreams

import "time"

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
	// breakerRow is how many failures in a row open the breaker,
	breakerRow = 5
	// breakerShare the share of failures in the window that opens it, once the window holds breakerVolume outcomes.
	breakerShare  = 0.5
	breakerVolume = 20
	windowSeconds = 10

	// The breaker stays open for coolDown, twice as long after each trial that failed, up to coolDownMax.
	coolDown    = time.Second
	coolDownMax = 15 * time.Second

	// unreachableRow is how many calls in a row that find nobody take the upstream down without asking a probe.
	unreachableRow = 2
)

// health is the state machine of one upstream: what probes and calls have shown, and what follows. It is pure: time comes
// in, nothing goes out, and the caller serialises.
//
// Probes decide between up and down by thresholds. Calls outrank them: one that finds nobody makes the upstream suspect,
// and then a single failed probe or a second such call takes it down. Calls also drive the breaker, which is about an
// engine that answers its probes and fails its work.
type health struct {
	fall, rise int

	state State
	row   int // probes in a row that contradict state

	suspect     bool
	unreachable int // calls in a row that found nobody

	open      bool
	openUntil time.Time
	reopened  int // trials failed since the breaker was last closed
	failures  int // calls failed in a row
	window    window
}

// probe books a probe's verdict.
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
		h.row = 0
	default:
		h.row++
		if good && h.row >= h.rise {
			h.become(StateUp)
		} else if !good && h.row >= h.fall {
			h.become(StateDown)
		}
	}
}

func (h *health) become(s State) {
	h.state, h.row, h.suspect, h.unreachable = s, 0, false, 0
}

// outcome books a call's outcome. trial says that the call was the one that a half-open breaker let through. It reports
// whether a probe should look at once.
func (h *health) outcome(o Outcome, trial bool, now time.Time) (look bool) {
	switch o {
	case OutcomeUnreachable:
		look = h.missed()
	case OutcomeOK, OutcomeRefused, OutcomeRejected, OutcomeModelGone, OutcomeBadResponse:
		h.unreachable, h.suspect = 0, false // somebody answered
	case OutcomeTimeout, OutcomeClientGone:
		look = o == OutcomeTimeout // a frozen engine is found by its probe sooner than by further calls
	}
	if h.open && !trial {
		return look // a call from before the breaker opened proves nothing about now
	}
	switch {
	case o == OutcomeOK:
		h.failures = 0
		h.window.add(false, now)
		if trial {
			h.close()
		}
	case o.failed():
		h.failures++
		h.window.add(true, now)
		h.judge(trial, now)
	}
	return look
}

// missed books a call that found nobody.
func (h *health) missed() (look bool) {
	if h.state != StateUp && h.state != StatePending {
		return false
	}
	h.unreachable++
	h.suspect = true
	if h.unreachable >= unreachableRow {
		h.become(StateDown)
	}
	return true
}

func (h *health) judge(trial bool, now time.Time) {
	switch {
	case h.open && trial:
		h.reopened++
		h.openUntil = now.Add(min(coolDownMax, coolDown<<min(h.reopened, 8)))
	case !h.open && (h.failures >= breakerRow || h.window.tripped(now)):
		h.open, h.reopened = true, 0
		h.openUntil = now.Add(coolDown)
	}
}

// close closes the breaker and forgets what opened it.
func (h *health) close() {
	h.open, h.reopened, h.failures = false, 0, 0
	h.window = window{}
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
