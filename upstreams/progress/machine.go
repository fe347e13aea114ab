package progress

import "time"

const (
	// WaitingAfter is how long a call is silent before it counts as waiting.
	WaitingAfter = 10 * time.Second
	// MaxSilence is how long a call may be silent while its engine is working.
	MaxSilence = 15 * time.Minute

	minStallBound     = 10 * time.Second // minimum bound once the step is known
	defaultStallBound = 30 * time.Second // bound while the step is unknown
	stallBoundSteps   = 3                // the bound is this many steps
	minMoves          = 3                // number of moves until the step is known
	decayMoves        = 64               // approximate number of moves over which the longest step decays

	defaultPrefillPerToken = 10 * time.Millisecond // prefill time per prompt token, until measured
	minPrefillPerToken     = time.Millisecond
	maxPrefillPerToken     = 30 * time.Millisecond
	minMeasuredTokens      = 512  // minimum number of prompt tokens for measuring the prefill speed
	chunkTokens            = 8192 // tokens that an engine with counters reads between two moves
	restartPause           = 10 * time.Second
	missingBeforeLost      = WaitingAfter // how long reports must omit a call before it counts as lost
	// How long reports must omit progressing calls to count as partial.
	partialReportsAfter      = 15 * time.Second
	ignorePartialReportsTime = MaxSilence // how long partial reports are ignored
	churnSampleCount         = 4          // number of samples during which a call may be in transit
	countAfterStill          = 2 * time.Second
	maxCountLag              = 3 * time.Second // maximum age of a counter reading at the last move
)

// Sample is a snapshot of an upstream's calls.
type Sample struct {
	At      time.Time
	Held    int    // number of calls in flight
	Waiting int    // number of calls that have been silent for WaitingAfter
	Buffers int    // number of calls whose responses the engine may buffer
	Unread  int64  // number of prompt tokens of calls without a first token
	Reads   uint64 // changes when response bytes are read
	Ended   uint64 // number of calls that have ended
}

// progressMachine is the state machine for one upstream's progress. It has no lock and reads no
// clock. The caller serialises the method calls.
type progressMachine struct {
	last          Sample
	churn         [churnSampleCount]int // number of calls that began or ended, for each of the last samples
	stillSince    time.Time             // time of the last move, or when the engine was last idle
	ownStillSince time.Time             // like stillSince, but only responses to this edge count as moves
	lastMove      time.Time             // time of the last move, or zero
	// The upstream is out of service, so it stays stalled even while it is idle.
	outOfService bool

	usualStep         time.Duration // the usual step
	longestPrefillGap time.Duration // longest recent time between two moves during a prefill
	moves             int           // number of moves so far, up to minMoves
	prefillPerToken   time.Duration // slowest recent prefill time per token; 0 if not measured

	hasCounters bool // the engine has counters
	sums        sumHistory
	countedAt   time.Time
	restartedAt time.Time // when the counters last decreased

	omittingReports int       // number of consecutive reports that omitted calls from this edge
	missingCalls    int       // number of calls omitted by each of these reports
	missingSince    time.Time // time of the first of these reports
	partialSince    time.Time // when the reports last seemed to cover only one of the engines
}

func (m *progressMachine) recordSample(s Sample) {
	before := m.last
	m.last = s
	began := s.Held - before.Held + int(s.Ended-before.Ended)
	copy(m.churn[1:], m.churn[:])
	m.churn[0] = max(0, began) + int(s.Ended-before.Ended)
	switch {
	case s.Reads != before.Reads:
		m.ownStillSince = s.At
		m.recordMove(s.At, before.Unread)
	case s.Held == 0 && !m.outOfService, before.Held == 0 && s.Held > 0 && !m.outOfService:
		m.stillSince, m.ownStillSince = s.At, s.At // the engine was idle
	}
}

// recordCount records the sum of the engine's counters. It reports whether the sum indicates a
// restart.
func (m *progressMachine) recordCount(at time.Time, sum float64) (restarted bool) {
	if !m.hasCounters {
		m.sums = sumHistory{}
	}
	// A higher sum proves new work only if the previous reading is not older than the last move. If
	// there is more than one engine, the previous reading may belong to another engine, so every
	// rise counts.
	known := m.hasCounters && (m.sums.hasSeveralEngines(at) || !m.countedAt.Before(m.stillSince.Add(-maxCountLag)))
	switch m.sums.record(sum, at) {
	case sumFell:
		m.restartedAt, m.omittingReports, restarted = at, 0, true
	case sumRose:
		if known || !m.outOfService && m.last.Held == 0 {
			m.recordMove(at, m.last.Unread)
		}
	case sumUnchanged:
	}
	m.hasCounters, m.countedAt = true, at
	return restarted
}

// recordMove records progress. unread is the number of unread prompt tokens before the move.
func (m *progressMachine) recordMove(at time.Time, unread int64) {
	if gap := at.Sub(m.stillSince); m.last.Held > 0 && !m.outOfService && !m.stillSince.IsZero() {
		m.usualStep = max(m.usualStep-m.usualStep/decayMoves, gap-m.maxPrefillGap(unread))
		if m.longestPrefillGap -= m.longestPrefillGap / decayMoves; unread > 0 {
			m.longestPrefillGap = max(m.longestPrefillGap, gap)
		}
		m.moves = min(minMoves, m.moves+1)
	}
	m.stillSince, m.lastMove, m.outOfService = at, at, false
}

func (m *progressMachine) recordFirstToken(took time.Duration, tokens int64) {
	if tokens >= minMeasuredTokens {
		m.prefillPerToken = max(m.prefillPerToken-m.prefillPerToken/decayMoves, took/time.Duration(tokens))
	}
}

// maxPrefillGap returns the maximum time without a move while the engine reads this many prompt
// tokens. If the engine has counters, only the tokens of one step count. The result is at least
// stallBoundSteps times the longest recent step, because the steps of a long prompt take
// increasingly long.
func (m *progressMachine) maxPrefillGap(unread int64) time.Duration {
	if unread <= 0 {
		return 0
	}
	token := defaultPrefillPerToken
	if m.prefillPerToken > 0 {
		token = min(maxPrefillPerToken, max(minPrefillPerToken, stallBoundSteps*m.prefillPerToken))
	}
	if m.hasCounters {
		unread = min(unread, chunkTokens)
	}
	return min(MaxSilence, max(time.Duration(unread)*token, stallBoundSteps*m.longestPrefillGap))
}

// stallBound returns the time without a move after which the engine has stalled.
func (m *progressMachine) stallBound() time.Duration {
	switch {
	case m.last.Buffers > 0 && !m.hasCounters:
		return MaxSilence
	case m.moves < minMoves:
		return defaultStallBound + m.maxPrefillGap(m.last.Unread)
	}
	return max(minStallBound, stallBoundSteps*m.usualStep) + m.maxPrefillGap(m.last.Unread)
}

// isStalled reports whether the engine has stalled. An engine that is out of service stays stalled
// until the next move.
func (m *progressMachine) isStalled(now time.Time) bool {
	return m.outOfService || m.last.Waiting > 0 && m.hasNoProgress(now)
}

// hasNoProgress reports whether there was no move for longer than the bound.
func (m *progressMachine) hasNoProgress(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.stillSince) >= m.stallBound() && now.Sub(m.restartedAt) >= restartPause
}

// isProvenStalled reports whether there was no move for longer than the bound, and a later counter
// reading proves it.
func (m *progressMachine) isProvenStalled(now time.Time) bool {
	return m.hasCounters && m.last.Waiting > 0 && m.hasNoProgress(now) && m.countedAt.Sub(m.stillSince) >= m.stallBound()
}

// shouldReadCounters reports whether to read the counters, because there are calls but none of
// their responses makes progress.
func (m *progressMachine) shouldReadCounters(now time.Time) bool {
	return m.last.Held > 0 && now.Sub(m.ownStillSince) >= countAfterStill && now.Sub(m.countedAt) >= countAfterStill
}

// recordReport records the requests that the engine reports, including those of other clients. held
// is the number of this edge's calls.
func (m *progressMachine) recordReport(at time.Time, requests, held int) {
	missing := held - requests
	for _, n := range m.churn {
		missing -= n
	}
	if missing <= 0 {
		m.omittingReports = 0
		return
	}
	if m.omittingReports == 0 {
		m.missingCalls, m.missingSince = missing, at
	}
	m.missingCalls = min(m.missingCalls, missing)
	m.omittingReports++
	if m.sums.hasSeveralEngines(at) || m.missingCalls > m.last.Waiting && at.Sub(m.missingSince) >= partialReportsAfter {
		m.partialSince = at
	}
}

// isLost reports whether a call that has been silent since silentSince is lost. The call is lost if
// the engine makes progress and every report omits exactly as many calls as are waiting.
func (m *progressMachine) isLost(silentSince time.Time, waiting int, now time.Time) bool {
	return now.Sub(m.lastMove) < WaitingAfter && now.Sub(m.partialSince) >= ignorePartialReportsTime && m.omittingReports > 1 &&
		m.missingCalls == waiting && !silentSince.After(m.missingSince) && now.Sub(m.missingSince) >= missingBeforeLost
}
