package progress

import "time"

const (
	// Patience is how long a call is silent before it counts as one that waits for its engine.
	Patience = 10 * time.Second
	// Ceiling is how long a call may be silent whose engine works.
	Ceiling = 15 * time.Minute

	leastBound   = 10 * time.Second // of an engine whose step is known
	unknownBound = 30 * time.Second // of one whose step is not
	boundSteps   = 3                // steps that may be left out
	stepsNeeded  = 3                // moves by which the step is known
	fade         = 64               // moves in which the longest step fades

	prefillToken     = 10 * time.Millisecond // of a prompt, as long as none was seen
	leastToken       = time.Millisecond
	mostToken        = 30 * time.Millisecond
	learnFrom        = 512  // tokens of a prompt that shows how fast prompts are read
	chunkTokens      = 8192 // which an engine that counts reads between two moves
	restartPause     = 10 * time.Second
	missingFor       = Patience         // how long all reports must miss a call that is lost
	partialAfter     = 15 * time.Second // in which they miss calls that move, too
	partialFor       = Ceiling          // that such reports are not believed for
	churnWindow      = 4                // samples whose calls may be on their way
	countWhenStillBy = 2 * time.Second
	countLag         = 3 * time.Second // by which a number may be older than the last move
)

// Sample is what is known of an upstream's calls at one moment.
type Sample struct {
	At      time.Time
	Held    int    // calls in flight
	Waiting int    // of them, those that have been silent for Patience
	Buffers int    // of them, those whose answers the engine may hold back
	Unread  int64  // prompt tokens of those that have had no first token
	Reads   uint64 // another number than before if there have been reads of answers
	Ended   uint64 // calls that have ended so far
}

// machine is the state of one upstream. It is pure: the caller serialises.
type machine struct {
	last  Sample
	churn [churnWindow]int // calls that began or ended before each of the last samples
	since time.Time        // nothing has moved since
	ours  time.Time        // no answer of ours has moved since
	moved time.Time        // the last move; zero: none yet
	out   bool             // it is taken out: nothing held is no sign of life

	step  time.Duration // usual
	chunk time.Duration // longest between two moves while prompts were read, lately
	moves int           // that were seen, up to stepsNeeded
	token time.Duration // slowest of a prompt, lately; 0: none was seen

	counts    bool // the engine has counters
	numbers   numbers
	countedAt time.Time
	restarted time.Time // when the counters fell last

	reports      int       // in a row in which the engine missed calls of ours
	missing      int       // as many as each of these reports missed
	missingSince time.Time // the first of them
	partial      time.Time // when the reports were last seen to be those of one engine of several
}

// sample takes a sample.
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
		m.since, m.ours = s.At, s.At // work begins
	}
}

// count takes what the engine's counters say. It reports whether they have begun anew.
func (m *machine) count(at time.Time, sum float64) (restarted bool) {
	if !m.counts {
		m.numbers = numbers{}
	}
	// It was read about when something moved. Of one engine of several that was long ago.
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

// move takes a sign of work. unread are the prompt tokens that were to be read until then.
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

// firstToken takes the time to a call's first token.
func (m *machine) firstToken(took time.Duration, tokens int64) {
	if tokens >= learnFrom {
		m.token = max(m.token-m.token/fade, took/time.Duration(tokens))
	}
}

// prefill is how long prompts of so many tokens may take that have brought nothing yet: by the
// tokens of which an engine may make one step, and no less than its steps have taken lately. Those
// of a long prompt take ever longer.
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

// bound is how long nothing may move.
func (m *machine) bound() time.Duration {
	switch {
	case m.last.Buffers > 0 && !m.counts:
		return Ceiling
	case m.moves < stepsNeeded:
		return unknownBound + m.prefill(m.last.Unread)
	}
	return max(leastBound, boundSteps*m.step) + m.prefill(m.last.Unread)
}

// stalled reports whether the engine has stalled. One that is out stays so until something moves.
func (m *machine) stalled(now time.Time) bool {
	return m.out || m.last.Waiting > 0 && m.still(now)
}

// still reports whether nothing has moved for too long.
func (m *machine) still(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.since) >= m.bound() && now.Sub(m.restarted) >= restartPause
}

// standsStill reports whether the engine's counters prove that nothing has moved for too long: they
// were read after all of that time.
func (m *machine) standsStill(now time.Time) bool {
	return m.counts && m.last.Waiting > 0 && m.still(now) && m.countedAt.Sub(m.since) >= m.bound()
}

// wantsCount reports whether to read the counters: there is work, and nothing of ours moves.
func (m *machine) wantsCount(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.ours) >= countWhenStillBy && now.Sub(m.countedAt) >= countWhenStillBy
}

// report takes how many requests the engine says that it has, of ours and of others. held are those
// of ours.
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

// lost reports whether a call that has been silent since then is lost: the calls that wait, and no
// others, are missing at the engine, which works.
func (m *machine) lost(silentSince time.Time, waiting int, now time.Time) bool {
	return now.Sub(m.moved) < Patience && now.Sub(m.partial) >= partialFor && m.reports > 1 &&
		m.missing == waiting && !silentSince.After(m.missingSince) && now.Sub(m.missingSince) >= missingFor
}
