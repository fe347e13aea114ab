package progress

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch decides whether one upstream's engine makes progress. Calls update its atomic fields, and
// the prober records samples and counters. The zero value is ready to use.
type Watch struct {
	waiting atomic.Int64
	buffers atomic.Int64
	unread  atomic.Int64

	mu sync.Mutex // never held during I/O
	m  progressMachine
}

// AddWaiting adds n to the number of calls that have been silent for WaitingAfter.
func (w *Watch) AddWaiting(n int64) { w.waiting.Add(n) }

// AddBuffering adds n to the number of calls whose responses the engine may buffer.
func (w *Watch) AddBuffering(n int64) { w.buffers.Add(n) }

// AddUnreadPromptTokens adds tokens to the prompt tokens of calls that have no first token yet.
// Callers include tokens that are probably cached. Otherwise, a prefill could look like a stall if
// they are no longer cached.
func (w *Watch) AddUnreadPromptTokens(tokens int64) { w.unread.Add(tokens) }

// RecordFirstToken records a call's time to first token and its prompt tokens.
func (w *Watch) RecordFirstToken(took time.Duration, tokens int64) {
	if tokens < minMeasuredTokens {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.recordFirstToken(took, tokens)
}

// RecordSample records a sample. It fills in Waiting, Buffers and Unread.
func (w *Watch) RecordSample(s Sample) {
	s.Waiting, s.Buffers, s.Unread = int(w.waiting.Load()), int(w.buffers.Load()), w.unread.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.recordSample(s)
}

// RecordCount records the sum of the engine's counters. It reports whether the sum indicates a
// restart of the engine.
func (w *Watch) RecordCount(at time.Time, sum float64) (restarted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.recordCount(at, sum)
}

// HasCounters reports whether the engine has counters.
func (w *Watch) HasCounters() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hasCounters
}

// SetNoCounters records that the engine has no counters.
func (w *Watch) SetNoCounters() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.hasCounters = false
}

// RecordProgress records progress that is shown neither by responses nor by counters.
func (w *Watch) RecordProgress(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.recordMove(at, w.m.last.Unread)
}

// RecordReport records the requests that the engine reports, and the number of this edge's calls.
func (w *Watch) RecordReport(at time.Time, requests, held int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.recordReport(at, requests, held)
}

// ShouldReadCounters reports whether to read the counters now.
func (w *Watch) ShouldReadCounters(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.shouldReadCounters(now)
}

// IsStalled reports whether the engine has stalled.
func (w *Watch) IsStalled(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.isStalled(now)
}

// IsProvenStalled reports whether the engine's counters prove a stall.
func (w *Watch) IsProvenStalled(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.isProvenStalled(now)
}

// MarkOutOfService records that the upstream is out of service. The upstream then counts as stalled
// until the next progress.
func (w *Watch) MarkOutOfService() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.outOfService = true
}

// Reset resets the Watch, because a different engine may now use the address.
func (w *Watch) Reset(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m = progressMachine{last: w.m.last, stillSince: now, ownStillSince: now}
}

// Resume records that the engine was busy and is up again. The time without progress starts anew.
func (w *Watch) Resume(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.stillSince, w.m.ownStillSince = now, now
}

// ProgressedSince reports whether the engine has made progress since the given time.
func (w *Watch) ProgressedSince(then time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.lastMove.After(then)
}

// IsProgressing reports whether the engine has counters and makes progress.
func (w *Watch) IsProgressing(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.hasCounters && !w.m.outOfService && !w.m.hasNoProgress(now)
}

// IsCallLost reports whether a call that has been silent since silentSince is lost.
func (w *Watch) IsCallLost(silentSince, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.isLost(silentSince, int(w.waiting.Load()), now)
}

// WatchFacts describes a Watch for the status page.
type WatchFacts struct {
	Counts bool          // the engine has counters
	Held   bool          // this edge has calls at the engine
	Still  time.Duration // time without progress
	Bound  time.Duration // the engine stalls when Still exceeds this
	Step   time.Duration // the usual step, or 0 if unknown
}

// Facts returns the current facts.
func (w *Watch) Facts(now time.Time) WatchFacts {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := WatchFacts{Counts: w.m.hasCounters, Held: w.m.last.Held > 0, Bound: w.m.stallBound()}
	if f.Held || w.m.outOfService {
		f.Still = max(0, now.Sub(w.m.stillSince))
	}
	if w.m.moves >= minMoves {
		f.Step = w.m.usualStep
	}
	return f
}
