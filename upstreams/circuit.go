package upstreams

import (
	"slices"
	"time"

	"penstock/upstreams/engine"
)

const (
	// breakerRow is the number of failures in a row at which the breaker reacts. Independent
	// failures open it without a generation probe.
	breakerRow = 5
	// doubtRow is the number of failures in a row that triggers a generation probe, after
	// doubtPause.
	doubtRow   = 2
	doubtPause = 500 * time.Millisecond
	// breakerShare is the share of failed calls at which the breaker also reacts, once the window
	// holds breakerVolume outcomes.
	breakerShare  = 0.5
	breakerVolume = 20
	windowSeconds = 10

	// The breaker stays open for coolDown, and twice as long after each failed trial, up to
	// coolDownMax. A trial may pass although the engine still fails, so the wait returns to
	// coolDown only after the engine has worked for a while.
	coolDown    = time.Second
	coolDownMax = 15 * time.Second
	// relapse is the time after a closing during which another opening counts as a failed trial.
	relapse = 15 * time.Second
)

// circuit is the state machine of a breaker. Its inputs are call outcomes and generation probes'
// verdicts. It is pure: the caller passes the time and serialises the calls.
//
// No client opens the breaker alone. Failures of one key, of calls without a key, or of one body
// count once (see evidence). Five independent failures open the breaker. Any other five failures
// ask for a generation probe. If the probe fails, the breaker opens. If it succeeds, the count is
// reset, but recent evidence stays. If no probe is possible, five independent failures are needed.
// For clients without keys, failures of different bodies count as independent.
type circuit struct {
	open           bool
	openUntil      time.Time
	reopened       int       // number of failed trials, and of openings soon after a closing
	closedAt       time.Time // when the breaker was last closed; zero: never
	barred         []string  // keys whose calls cannot be the trial: they opened the breaker, or kept it open
	tried          []string  // keys whose trials have failed since the breaker opened
	failures       int       // failed calls in a row
	rowEvidence    evidence  // evidence of these failures
	window         window
	windowEvidence evidence // evidence of the failures in the window
	broken         bool     // a call failed within its answer, and none has succeeded since
	// unprobed says that the edge cannot send a generation probe here: no model of the upstream is of
	// a kind with a probe, or the engine rejects the probe. Then only calls decide.
	unprobed bool
}

// outcome records a call's outcome, and reports whether a generation probe should confirm that the
// engine fails. trial is true if a half-open breaker let this call through.
func (c *circuit) outcome(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	if c.open && !trial {
		return false // a call from before the breaker opened says nothing about the engine now
	}
	switch {
	case o == OutcomeOK:
		c.failures, c.unprobed, c.broken = 0, false, false
		c.rowEvidence.clear()
		c.window.add(false, now)
		if trial {
			c.close(now)
		}
	case o.Failed():
		c.failures++
		c.broken = c.broken || by.Begun
		c.rowEvidence.add(by, now)
		c.window.add(true, now)
		c.windowEvidence.expire(now)
		c.windowEvidence.add(by, now)
		return c.judge(by, trial, now)
	}
	return false
}

// inDoubt reports whether a generation probe should follow soon, although too few calls have failed
// in a row to ask for one. Routing avoids such an engine, so the next failure may come much later.
func (c *circuit) inDoubt() bool { return c.failures >= doubtRow && !c.open && !c.unprobed }

// judge decides after a failure whether the breaker opens or a generation probe decides.
func (c *circuit) judge(by FailureSource, trial bool, now time.Time) (generate bool) {
	switch {
	case c.open && trial:
		c.failTrial(by.Key, now)
		return false
	case c.open:
		return false
	}
	inRow, inWindow := c.failures >= breakerRow, c.window.tripped(now)
	switch {
	case inRow && c.rowEvidence.enough(c.unprobed):
		c.trip(c.rowEvidence.keys(), now)
	case inWindow && c.windowEvidence.enough(c.unprobed):
		c.trip(c.windowEvidence.keys(), now)
	default:
		return (inRow || inWindow) && !c.unprobed
	}
	return false
}

// generation records the result of a generation probe. trial is true if a half-open breaker let
// this probe through.
func (c *circuit) generation(g engine.Generation, trial bool, now time.Time) {
	switch {
	case g == engine.GenerationOK && c.open && trial:
		c.close(now)
	case g == engine.GenerationOK && !c.open:
		c.acquit(now)
	case g == engine.GenerationFailed && !c.open:
		c.unprobed = false
		c.trip(nil, now) // no client's failure opened the breaker: any key's call may be the trial
	case g == engine.GenerationFailed && trial:
		c.reopen(now)
	case g == engine.GenerationRejected:
		c.unprobed, c.barred = true, nil
		if !c.open && c.failures >= breakerRow && c.rowEvidence.enough(true) {
			c.trip(nil, now)
		}
	}
}

// trip opens the breaker. Calls of the given keys cannot be its trial.
func (c *circuit) trip(barred []string, now time.Time) {
	if c.unprobed {
		barred = nil // otherwise no call could be the trial
	}
	if !c.open && !c.closedAt.IsZero() && now.Sub(c.closedAt) < relapse {
		c.reopened++ // the evidence that closed the breaker was wrong
	} else {
		c.reopened = 0
	}
	c.open, c.barred, c.tried = true, barred, nil
	c.openUntil = now.Add(c.wait())
}

// wait returns the time for which the breaker stays open.
func (c *circuit) wait() time.Duration { return min(coolDownMax, coolDown<<min(c.reopened, 8)) }

// failTrial handles a failed trial by a key's call: that key does not get the next trial. If there
// is no generation probe, the key may send a trial again after a while, even if no other client has
// sent one. A repeated failure by the same key proves nothing new, so the wait stays short: half of
// the time is reserved for other clients' trials, whatever this client sends.
func (c *circuit) failTrial(key string, now time.Time) {
	if !slices.Contains(c.barred, key) {
		c.barred = append(slices.Clone(c.barred), key) // a new slice: picks read the old one
	}
	if c.unprobed && slices.Contains(c.tried, key) {
		c.openUntil = now.Add(coolDown)
		return
	}
	c.tried = append(c.tried, key)
	c.reopen(now)
}

// reopen opens the breaker again after a failed trial.
func (c *circuit) reopen(now time.Time) {
	c.reopened++
	c.openUntil = now.Add(c.wait())
}

// close closes the breaker and clears the failures that opened it or could have opened it.
func (c *circuit) close(now time.Time) {
	c.open, c.barred, c.tried, c.closedAt = false, nil, nil, now
	c.failures, c.rowEvidence, c.unprobed, c.broken = 0, evidence{}, false, false
	c.window, c.windowEvidence = window{}, evidence{}
}

// acquit handles a generation probe that succeeded while the breaker was closed. It resets the
// count of failures, so that they do not ask for another probe. Recent evidence stays, because a
// probe does not outvote five independent failures.
func (c *circuit) acquit(now time.Time) {
	c.failures, c.unprobed = 0, false
	c.window = window{}
	c.rowEvidence.expire(now)
	c.windowEvidence.expire(now)
}

// window counts the outcomes of the last windowSeconds in buckets of one second.
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

// evidence holds as many failures as a breaker needs to open. The zero value is empty.
type evidence struct {
	independent [breakerRow]failureRecord
	n           int
	bodies      [breakerRow]failureRecord // failures with different bodies; an unknown body counts as different
	bodyCount   int
}

// failureRecord is one failure and when it happened.
type failureRecord struct {
	FailureSource
	at time.Time
}

// clear drops all failures. Nearly always there are none, and the struct is large.
func (e *evidence) clear() {
	if e.n > 0 || e.bodyCount > 0 {
		*e = evidence{}
	}
}

// add keeps a failure if it is new evidence.
func (e *evidence) add(f FailureSource, at time.Time) {
	t := failureRecord{f, at}
	repeats := func(old failureRecord) bool { return f.Body != 0 && f.Body == old.Body }
	if e.bodyCount < len(e.bodies) && !slices.ContainsFunc(e.bodies[:e.bodyCount], repeats) {
		e.bodies[e.bodyCount] = t
		e.bodyCount++
	}
	depends := func(old failureRecord) bool { return !f.independentOf(old.FailureSource) }
	if e.n < len(e.independent) && !slices.ContainsFunc(e.independent[:e.n], depends) {
		e.independent[e.n] = t
		e.n++
	}
}

// expire drops failures older than the breaker's window.
func (e *evidence) expire(now time.Time) {
	old := func(t failureRecord) bool { return now.Sub(t.at) >= windowSeconds*time.Second }
	e.n = len(slices.DeleteFunc(e.independent[:e.n], old))
	e.bodyCount = len(slices.DeleteFunc(e.bodies[:e.bodyCount], old))
}

// enough reports whether the evidence opens a breaker without a generation probe. If no probe is
// possible, failures of different bodies are enough for clients without keys, because these
// clients cannot be told apart. One repeated request never takes an engine out.
func (e *evidence) enough(unprobed bool) bool {
	keyed := func(t failureRecord) bool { return t.Key != "" }
	return e.n == len(e.independent) ||
		unprobed && e.bodyCount == len(e.bodies) && !slices.ContainsFunc(e.bodies[:], keyed)
}

// keys returns the keys of the independent failures.
func (e *evidence) keys() []string {
	keys := make([]string, 0, e.n)
	for i := range e.n {
		keys = append(keys, e.independent[i].Key)
	}
	return keys
}
