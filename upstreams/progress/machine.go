package progress

import "time"

const (
	// Patience is how long a call is silent before it counts as waiting.
	Patience = 10 * time.Second
	// Ceiling is how long a call may be silent while its engine works.
	Ceiling = 15 * time.Minute

	leastBound   = 10 * time.Second // minimum bound once the step is known
	unknownBound = 30 * time.Second // bound while the step is unknown
	boundSteps   = 3                // the bound is this many steps
	stepsNeeded  = 3                // moves needed until the step is known
	fade         = 64               // approximate number of moves over which the longest step decays

	prefillToken     = 10 * time.Millisecond // prefill time per prompt token, until measured
	leastToken       = time.Millisecond
	mostToken        = 30 * time.Millisecond
	learnFrom        = 512  // minimum number of prompt tokens to measure the prefill speed
	chunkTokens      = 8192 // tokens that an engine with counters reads between two moves
	restartPause     = 10 * time.Second
	missingFor       = Patience         // how long every report must omit a call before it counts as lost
	partialAfter     = 15 * time.Second // how long reports must omit moving calls before they count as partial
	partialFor       = Ceiling          // how long partial reports are ignored
	churnWindow      = 4                // samples during which a call may be in transit
	countWhenStillBy = 2 * time.Second
	countLag         = 3 * time.Second // how much older than the last move a counter reading may be
)

// Sample is a snapshot of an upstream's calls.
type Sample struct {
	At      time.Time
	Held    int    // calls in flight
	Waiting int    // calls that have been silent for Patience
	Buffers int    // calls whose responses the engine may buffer
	Unread  int64  // prompt tokens of calls without a first token
	Reads   uint64 // changes when response bytes are read
	Ended   uint64 // calls that have ended
}

// machine is the state machine for one upstream's progress. It has no lock and reads no clock. The
// caller serialises the method calls.
type machine struct {
	last  Sample
	churn [churnWindow]int // number of calls that began or ended, for each of the last samples
	since time.Time        // since when nothing has moved
	ours  time.Time        // since when no response to this edge has moved
	moved time.Time        // time of the last move, or zero
	out   bool             // the upstream is out of service, so an idle engine is not making progress

	step  time.Duration // the usual step
	chunk time.Duration // longest recent time between two moves during a prefill
	moves int           // moves seen, up to stepsNeeded
	token time.Duration // slowest recent prefill time per token; 0 if not measured

	counts    bool // the engine has counters
	numbers   numbers
	countedAt time.Time
	restarted time.Time // when the counters last decreased

	reports      int       // number of consecutive reports that omitted calls from this edge
	missing      int       // number of calls omitted by each of these reports
	missingSince time.Time // time of the first of these reports
	partial      time.Time // when the reports last seemed to cover only one of several engines
}

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
		m.since, m.ours = s.At, s.At // the engine was idle
	}
}

// count records the sum of the engine's counters. It reports whether they indicate a restart.
func (m *machine) count(at time.Time, sum float64) (restarted bool) {
	if !m.counts {
		m.numbers = numbers{}
	}
	// A rise proves new work only if the previous reading is no older than the last move. If there
	// are several engines, the previous reading may belong to another engine, so every rise counts.
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

// move records progress. unread is the number of prompt tokens that were unread before the
// progress.
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

func (m *machine) firstToken(took time.Duration, tokens int64) {
	if tokens >= learnFrom {
		m.token = max(m.token-m.token/fade, took/time.Duration(tokens))
	}
}

// prefill returns the maximum time without a move while the engine reads this many prompt tokens.
// If the engine has counters, this is the time for the tokens of one step, or the longest recent
// step, because the steps of a long prompt take increasingly long.
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

// bound returns the maximum time without progress.
func (m *machine) bound() time.Duration {
	switch {
	case m.last.Buffers > 0 && !m.counts:
		return Ceiling
	case m.moves < stepsNeeded:
		return unknownBound + m.prefill(m.last.Unread)
	}
	return max(leastBound, boundSteps*m.step) + m.prefill(m.last.Unread)
}

// stalled reports whether the engine has stalled. An engine that is out of service stays stalled
// until something moves.
func (m *machine) stalled(now time.Time) bool {
	return m.out || m.last.Waiting > 0 && m.still(now)
}

// still reports whether nothing has moved for longer than the bound.
func (m *machine) still(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.since) >= m.bound() && now.Sub(m.restarted) >= restartPause
}

// standsStill reports whether nothing has moved for longer than the bound, and a counter reading
// after the bound proves it.
func (m *machine) standsStill(now time.Time) bool {
	return m.counts && m.last.Waiting > 0 && m.still(now) && m.countedAt.Sub(m.since) >= m.bound()
}

// wantsCount reports whether to read the counters, because there are calls but no response to this
// edge moves.
func (m *machine) wantsCount(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.ours) >= countWhenStillBy && now.Sub(m.countedAt) >= countWhenStillBy
}

// report records the requests that the engine reports, including those of other clients. held is
// the number of this edge's calls.
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

// lost reports whether a call that has been silent since silentSince is lost. The call is lost if
// the engine works and every report omits exactly as many calls as are waiting.
func (m *machine) lost(silentSince time.Time, waiting int, now time.Time) bool {
	return now.Sub(m.moved) < Patience && now.Sub(m.partial) >= partialFor && m.reports > 1 &&
		m.missing == waiting && !silentSince.After(m.missingSince) && now.Sub(m.missingSince) >= missingFor
}
