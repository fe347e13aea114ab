package progress

import "time"

const (
	// Patience is the time for which a call is silent before it counts as waiting for its engine.
	Patience = 10 * time.Second
	// Ceiling is the maximum time for which a call may be silent while its engine works.
	Ceiling = 15 * time.Minute

	leastBound   = 10 * time.Second // the least bound if the engine's step is known
	unknownBound = 30 * time.Second // the bound if the engine's step is unknown
	boundSteps   = 3                // steps that may be missed
	stepsNeeded  = 3                // moves after which the step is known
	fade         = 64               // moves over which the longest step decays, about

	prefillToken     = 10 * time.Millisecond // per prompt token, until one is measured
	leastToken       = time.Millisecond
	mostToken        = 30 * time.Millisecond
	learnFrom        = 512  // prompt tokens needed to measure the reading speed
	chunkTokens      = 8192 // tokens that an engine with counters reads between two moves
	restartPause     = 10 * time.Second
	missingFor       = Patience         // time for which all reports must miss a lost call
	partialAfter     = 15 * time.Second // time after which reports count as partial
	partialFor       = Ceiling          // time for which such reports are ignored
	churnWindow      = 4                // samples within which a call may be in transit
	countWhenStillBy = 2 * time.Second
	countLag         = 3 * time.Second // maximum age of a number relative to the last move
)

// Sample describes an upstream's calls at one moment.
type Sample struct {
	At      time.Time
	Held    int    // calls in flight
	Waiting int    // calls that have been silent for Patience
	Buffers int    // calls whose answers the engine may hold back
	Unread  int64  // prompt tokens in calls without a first token
	Reads   uint64 // differs if answers were read
	Ended   uint64 // calls that have ended so far
}

// machine holds what is known about one upstream's progress. It has no lock and reads no clock: the
// caller makes one call at a time.
type machine struct {
	last  Sample
	churn [churnWindow]int // calls that started or ended before each of the last samples
	since time.Time        // since when nothing has moved
	ours  time.Time        // since when no answer to this edge has moved
	moved time.Time        // when something last moved; zero: never yet
	out   bool             // the upstream is out, so an empty engine is not a sign of work

	step  time.Duration // the usual step
	chunk time.Duration // longest recent time between two moves while prompts were read
	moves int           // moves seen, up to stepsNeeded
	token time.Duration // slowest recent time per prompt token; 0: none measured

	counts    bool // the engine has counters
	numbers   numbers
	countedAt time.Time
	restarted time.Time // when the counters last fell

	reports      int       // consecutive reports that missed calls from this edge
	missing      int       // number of calls that each of these reports missed
	missingSince time.Time // time of the first of these reports
	partial      time.Time // when the reports last seemed to cover one of several engines
}

// sample records a sample.
func (m *machine) sample(s Sample) {
	before := m.last
	m.last = s
	began := s.Held - before.Held + int(s.Ended-before.Ended)
	copy(m.churn[1:], m.churn[:])
	m.churn[0] = max(0, began) + int(s.Ended-before.Ended)
	switch {
	case s.Reads != before.Reads:
		m.ours = s.At
		m.move(s.At, before.Unread)
	case s.Held == 0 && !m.out, before.Held == 0 && s.Held > 0 && !m.out:
		m.since, m.ours = s.At, s.At // work starts
	}
}

// count records the engine's counters. It reports whether they have restarted.
func (m *machine) count(at time.Time, sum float64) (restarted bool) {
	if !m.counts {
		m.numbers = numbers{}
	}
	// A rise proves new work only if the previous reading was taken when something last moved, or
	// later. With several engines that reading may be another engine's, so every rise counts.
	known := m.counts && (m.numbers.several(at) || !m.countedAt.Before(m.since.Add(-countLag)))
	switch m.numbers.take(sum, at) {
	case numberFell:
		m.restarted, m.reports, restarted = at, 0, true
	case numberRose:
		if known || !m.out && m.last.Held == 0 {
			m.move(at, m.last.Unread)
		}
	case numberStood:
	}
	m.counts, m.countedAt = true, at
	return restarted
}

// move records a sign of work. unread is the number of prompt tokens that were unread until then.
func (m *machine) move(at time.Time, unread int64) {
	if gap := at.Sub(m.since); m.last.Held > 0 && !m.out && !m.since.IsZero() {
		m.step = max(m.step-m.step/fade, gap-m.prefill(unread))
		if m.chunk -= m.chunk / fade; unread > 0 {
			m.chunk = max(m.chunk, gap)
		}
		m.moves = min(stepsNeeded, m.moves+1)
	}
	m.since, m.moved, m.out = at, at, false
}

// firstToken records the time to a call's first token.
func (m *machine) firstToken(took time.Duration, tokens int64) {
	if tokens >= learnFrom {
		m.token = max(m.token-m.token/fade, took/time.Duration(tokens))
	}
}

// prefill returns the maximum time for an engine to read prompts with the given number of unread
// tokens. That is the time for the tokens that an engine may read in one step, but no less than
// recent steps took. The steps of a long prompt become longer and longer.
func (m *machine) prefill(unread int64) time.Duration {
	if unread <= 0 {
		return 0
	}
	token := prefillToken
	if m.token > 0 {
		token = min(mostToken, max(leastToken, boundSteps*m.token))
	}
	if m.counts {
		unread = min(unread, chunkTokens)
	}
	return min(Ceiling, max(time.Duration(unread)*token, boundSteps*m.chunk))
}

// bound returns the maximum time for which the engine may stand still.
func (m *machine) bound() time.Duration {
	switch {
	case m.last.Buffers > 0 && !m.counts:
		return Ceiling
	case m.moves < stepsNeeded:
		return unknownBound + m.prefill(m.last.Unread)
	}
	return max(leastBound, boundSteps*m.step) + m.prefill(m.last.Unread)
}

// stalled reports whether the engine has stalled. An engine that is out stays out until something
// moves.
func (m *machine) stalled(now time.Time) bool {
	return m.out || m.last.Waiting > 0 && m.still(now)
}

// still reports whether nothing has moved for too long.
func (m *machine) still(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.since) >= m.bound() && now.Sub(m.restarted) >= restartPause
}

// standsStill reports whether nothing has moved for too long, and whether counters that were read
// after that period prove it.
func (m *machine) standsStill(now time.Time) bool {
	return m.counts && m.last.Waiting > 0 && m.still(now) && m.countedAt.Sub(m.since) >= m.bound()
}

// wantsCount reports whether to read the counters: there is work, but no answer to this edge
// moves.
func (m *machine) wantsCount(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.ours) >= countWhenStillBy && now.Sub(m.countedAt) >= countWhenStillBy
}

// report records the number of requests that the engine reports, including those of other clients.
// held is the number of calls that this edge has there.
func (m *machine) report(at time.Time, requests, held int) {
	missing := held - requests
	for _, n := range m.churn {
		missing -= n
	}
	if missing <= 0 {
		m.reports = 0
		return
	}
	if m.reports == 0 {
		m.missing, m.missingSince = missing, at
	}
	m.missing = min(m.missing, missing)
	m.reports++
	if m.numbers.several(at) || m.missing > m.last.Waiting && at.Sub(m.missingSince) >= partialAfter {
		m.partial = at
	}
}

// lost reports whether a call that has been silent since the given time is lost. This is the case
// if the engine works, and its reports miss exactly as many calls as wait.
func (m *machine) lost(silentSince time.Time, waiting int, now time.Time) bool {
	return now.Sub(m.moved) < Patience && now.Sub(m.partial) >= partialFor && m.reports > 1 &&
		m.missing == waiting && !silentSince.After(m.missingSince) && now.Sub(m.missingSince) >= missingFor
}
