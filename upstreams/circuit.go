package upstreams

import (
	"slices"
	"time"

	"penstock/upstreams/engine"
)

const (
	// The breaker reacts to openAfterFailures consecutive failures. If the failures are
	// independent, the breaker opens without a generation probe.
	openAfterFailures = 5
	// After doubtAfterFailures consecutive failures and a pause of doubtProbePause, the edge sends
	// a generation probe.
	doubtAfterFailures = 2
	doubtProbePause    = 500 * time.Millisecond
	// The breaker also reacts if the share of failed calls reaches openFailureShare and the window
	// has at least minWindowOutcomes outcomes.
	openFailureShare  = 0.5
	minWindowOutcomes = 20
	windowSeconds     = 10

	// The breaker stays open for breakerCoolDown, and twice as long after each failed trial, up to
	// maxBreakerCoolDown. A single trial may succeed on a failing engine. The pause therefore returns to
	// breakerCoolDown only if the breaker stays closed for breakerRelapseTime.
	breakerCoolDown    = time.Second
	maxBreakerCoolDown = 15 * time.Second
	// If the breaker opens again within breakerRelapseTime after it has closed, this counts as a failed
	// trial.
	breakerRelapseTime = 15 * time.Second
)

// breakerCircuit is the state machine of a breaker. Its inputs are the outcomes of calls and of
// generation probes. It does no I/O and reads no clock. The caller serialises the method calls.
//
// No single client can open the breaker. Failures of the same key, of calls without a key, or of
// the same body count once (see failureEvidence). Five independent failures open the breaker. Any
// other five failures trigger a generation probe. If the probe fails, the breaker opens. If the
// probe succeeds, the failure count is reset, but recent evidence is kept. If no probe is possible,
// five independent failures are needed. For clients without keys, failures of different bodies
// count as independent. A 404 without a reason may be the fault of the request, so it is never
// evidence. Such 404s open the breaker only if a generation probe also gets a 404.
type breakerCircuit struct {
	isOpen       bool
	openUntil    time.Time
	failedTrials int       // failed trials, including openings within breakerRelapseTime
	closedAt     time.Time // zero if the breaker has never closed
	// Keys whose failures opened the breaker or kept it open; see BarsKeyFromTrial.
	barredKeys     []string
	triedKeys      []string        // keys whose trials have failed since the breaker opened
	failures       int             // consecutive failures
	rowEvidence    failureEvidence // evidence of the consecutive failures
	window         outcomeWindow
	windowEvidence failureEvidence // evidence of the failures in the window
	responseBroken bool            // a response has broken off since the last success
	// cannotProbe is true if no generation probe is possible, because the upstream has no model
	// that can be probed or the engine rejects the probe. In that case, only calls decide.
	cannotProbe bool
}

// recordOutcome records the outcome of a call. It reports whether a generation probe should confirm
// the failure. trial is true if the half-open breaker admitted this call.
func (c *breakerCircuit) recordOutcome(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	if c.isOpen && !trial {
		return false // the call began before the breaker opened, so its outcome is obsolete
	}
	switch {
	case o == OutcomeOK:
		c.failures, c.cannotProbe, c.responseBroken = 0, false, false
		c.rowEvidence.clear()
		c.window.addOutcome(false, now)
		if trial {
			c.close(now)
		}
	case o.IsFailure():
		c.failures++
		c.responseBroken = c.responseBroken || by.Begun
		c.window.addOutcome(true, now)
		c.windowEvidence.expire(now)
		if !by.NotFound {
			c.rowEvidence.addFailure(by, now)
			c.windowEvidence.addFailure(by, now)
		}
		return c.judgeFailure(by, trial, now)
	}
	return false
}

// isInDoubt reports whether to send a generation probe soon, even though fewer than
// openAfterFailures consecutive calls have failed. Routing avoids an engine whose calls fail, so it
// may take a long time until the next failure.
func (c *breakerCircuit) isInDoubt() bool {
	return c.failures >= doubtAfterFailures && !c.isOpen && !c.cannotProbe
}

// judgeFailure decides after a failure whether to open the breaker or to send a generation probe.
func (c *breakerCircuit) judgeFailure(by FailureSource, trial bool, now time.Time) (generate bool) {
	switch {
	case c.isOpen && trial:
		c.failTrial(by.Key, now)
		return false
	case c.isOpen:
		return false
	}
	inRow, inWindow := c.failures >= openAfterFailures, c.window.isFailureShareExceeded(now)
	switch {
	case inRow && c.rowEvidence.opensBreaker(c.cannotProbe):
		c.trip(c.rowEvidence.keys(), now)
	case inWindow && c.windowEvidence.opensBreaker(c.cannotProbe):
		c.trip(c.windowEvidence.keys(), now)
	default:
		return (inRow || inWindow) && !c.cannotProbe
	}
	return false
}

// recordGeneration records the result of a generation probe. trial is true if the half-open breaker
// admitted this probe.
func (c *breakerCircuit) recordGeneration(g engine.GenerationVerdict, trial bool, now time.Time) {
	switch {
	case g == engine.GenerationOK && c.isOpen && trial:
		c.close(now)
	case g == engine.GenerationOK && !c.isOpen:
		c.probeSucceeded(now)
	case g == engine.GenerationFailed && !c.isOpen:
		c.cannotProbe = false
		c.trip(nil, now) // the probe opened the breaker, so a call of any key may be the trial
	case g == engine.GenerationFailed && trial:
		c.reopen(now)
	case g == engine.GenerationRejected:
		c.cannotProbe, c.barredKeys = true, nil
		if !c.isOpen && c.failures >= openAfterFailures && c.rowEvidence.opensBreaker(true) {
			c.trip(nil, now)
		}
	}
}

// trip opens the breaker. Calls of the barred keys cannot be the trial.
func (c *breakerCircuit) trip(barred []string, now time.Time) {
	if c.cannotProbe {
		barred = nil // without probes, a call must be the trial
	}
	if !c.isOpen && !c.closedAt.IsZero() && now.Sub(c.closedAt) < breakerRelapseTime {
		c.failedTrials++ // the breaker closed too early
	} else {
		c.failedTrials = 0
	}
	c.isOpen, c.barredKeys, c.triedKeys = true, barred, nil
	c.openUntil = now.Add(c.openTime())
}

// openTime returns how long the breaker stays open.
func (c *breakerCircuit) openTime() time.Duration {
	return min(maxBreakerCoolDown, breakerCoolDown<<min(c.failedTrials, 8))
}

// failTrial handles a failed trial and bars its key from the next trial. If no generation probe is
// possible, the key may send another trial after barredTrialHeadStart. A second failed trial of the
// same key does not lengthen the pause, because it is not new evidence. After each pause, only
// other clients may send the trial until barredTrialHeadStart has passed again.
func (c *breakerCircuit) failTrial(key string, now time.Time) {
	if !slices.Contains(c.barredKeys, key) {
		c.barredKeys = append(slices.Clone(c.barredKeys), key) // routing may still be reading the old slice
	}
	if c.cannotProbe && slices.Contains(c.triedKeys, key) {
		c.openUntil = now.Add(breakerCoolDown)
		return
	}
	c.triedKeys = append(c.triedKeys, key)
	c.reopen(now)
}

func (c *breakerCircuit) reopen(now time.Time) {
	c.failedTrials++
	c.openUntil = now.Add(c.openTime())
}

// close closes the breaker and clears all failures.
func (c *breakerCircuit) close(now time.Time) {
	c.isOpen, c.barredKeys, c.triedKeys, c.closedAt = false, nil, nil, now
	c.failures, c.rowEvidence, c.cannotProbe, c.responseBroken = 0, failureEvidence{}, false, false
	c.window, c.windowEvidence = outcomeWindow{}, failureEvidence{}
}

// probeSucceeded handles a successful generation probe while the breaker is closed. It resets the
// failure count, so that the same failures do not trigger another probe. It keeps recent evidence,
// because one successful probe does not outweigh five independent failures.
func (c *breakerCircuit) probeSucceeded(now time.Time) {
	c.failures, c.cannotProbe = 0, false
	c.window = outcomeWindow{}
	c.rowEvidence.expire(now)
	c.windowEvidence.expire(now)
}

// outcomeWindow counts outcomes in one-second buckets over the last windowSeconds.
type outcomeWindow struct {
	buckets [windowSeconds]struct {
		second                   int64
		totalCount, failureCount int
	}
}

func (w *outcomeWindow) addOutcome(wrong bool, now time.Time) {
	second := momentTicks(now) / int64(time.Second)
	b := &w.buckets[((second%windowSeconds)+windowSeconds)%windowSeconds]
	if b.second != second {
		b.second, b.totalCount, b.failureCount = second, 0, 0
	}
	b.totalCount++
	if wrong {
		b.failureCount++
	}
}

func (w *outcomeWindow) isFailureShareExceeded(now time.Time) bool {
	oldest := momentTicks(now)/int64(time.Second) - windowSeconds
	all, wrong := 0, 0
	for i := range w.buckets {
		if b := &w.buckets[i]; b.second > oldest {
			all, wrong = all+b.totalCount, wrong+b.failureCount
		}
	}
	return all >= minWindowOutcomes && float64(wrong) >= openFailureShare*float64(all)
}

// failureEvidence contains up to openAfterFailures independent failures. The zero value is empty.
type failureEvidence struct {
	independent [openAfterFailures]failureRecord
	n           int
	// Failures with distinct request bodies; an unknown body counts as distinct.
	bodies    [openAfterFailures]failureRecord
	bodyCount int
}

type failureRecord struct {
	FailureSource
	failedAt time.Time
}

// clear removes all failures. It first checks whether there are any, because the struct is large
// and almost always empty.
func (e *failureEvidence) clear() {
	if e.n > 0 || e.bodyCount > 0 {
		*e = failureEvidence{}
	}
}

// addFailure stores a failure if the failure is new evidence.
func (e *failureEvidence) addFailure(f FailureSource, at time.Time) {
	t := failureRecord{f, at}
	repeats := func(old failureRecord) bool { return f.Body != 0 && f.Body == old.Body }
	if e.bodyCount < len(e.bodies) && !slices.ContainsFunc(e.bodies[:e.bodyCount], repeats) {
		e.bodies[e.bodyCount] = t
		e.bodyCount++
	}
	depends := func(old failureRecord) bool { return !f.isIndependentOf(old.FailureSource) }
	if e.n < len(e.independent) && !slices.ContainsFunc(e.independent[:e.n], depends) {
		e.independent[e.n] = t
		e.n++
	}
}

func (e *failureEvidence) expire(now time.Time) {
	old := func(t failureRecord) bool { return now.Sub(t.failedAt) >= windowSeconds*time.Second }
	e.n = len(slices.DeleteFunc(e.independent[:e.n], old))
	e.bodyCount = len(slices.DeleteFunc(e.bodies[:e.bodyCount], old))
}

// opensBreaker reports whether the evidence opens the breaker without a generation probe. If no
// probe is possible, failures with distinct bodies are enough for clients without keys, because the
// edge cannot tell these clients apart. A single repeated request never opens the breaker.
func (e *failureEvidence) opensBreaker(unprobed bool) bool {
	keyed := func(t failureRecord) bool { return t.Key != "" }
	return e.n == len(e.independent) ||
		unprobed && e.bodyCount == len(e.bodies) && !slices.ContainsFunc(e.bodies[:], keyed)
}

func (e *failureEvidence) keys() []string {
	keys := make([]string, 0, e.n)
	for i := range e.n {
		keys = append(keys, e.independent[i].Key)
	}
	return keys
}
