package progress

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch decides whether one upstream's engine works. Calls report their state through atomics; the
// prober passes in samples and counters. The zero value is ready for use.
type Watch struct {
	waiting atomic.Int64
	buffers atomic.Int64
	unread  atomic.Int64

	mu sync.Mutex // held for bookkeeping only
	m  machine
}

// Waits counts calls that start (1) or stop (-1) waiting for the engine after Patience.
func (w *Watch) Waits(n int64) { w.waiting.Add(n) }

// Buffers counts calls whose answers the engine may hold back until they are complete.
func (w *Watch) Buffers(n int64) { w.buffers.Add(n) }

// Unread counts the prompt tokens of calls that have had no first token, including cached ones:
// if the assumed cache is gone, the prefill must not count as a stall.
func (w *Watch) Unread(tokens int64) { w.unread.Add(tokens) }

// FirstToken records the time to a call's first token.
func (w *Watch) FirstToken(took time.Duration, tokens int64) {
	if tokens < learnFrom {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.firstToken(took, tokens)
}

// Sample records a sample, adding what the calls have reported.
func (w *Watch) Sample(s Sample) {
	s.Waiting, s.Buffers, s.Unread = int(w.waiting.Load()), int(w.buffers.Load()), w.unread.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.sample(s)
}

// Count records the sum of the engine's counters. It reports whether the counters have restarted,
// which means that the engine was restarted.
func (w *Watch) Count(at time.Time, sum float64) (restarted bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.count(at, sum)
}

// Counts reports whether the engine has counters.
func (w *Watch) Counts() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.counts
}

// Uncounted records that the engine has no counters.
func (w *Watch) Uncounted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.counts = false
}

// Moved records a sign of work that is neither a call's nor a counter's.
func (w *Watch) Moved(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.move(at, w.m.last.Unread)
}

// Report records the number of requests that the engine reports, and the number of calls that it
// had from this edge.
func (w *Watch) Report(at time.Time, requests, held int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.report(at, requests, held)
}

// WantsCount reports whether to read the counters now.
func (w *Watch) WantsCount(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.wantsCount(now)
}

// Stalled reports whether the engine has stalled.
func (w *Watch) Stalled(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.stalled(now)
}

// StandsStill reports whether the engine's readable counters prove that it has stalled.
func (w *Watch) StandsStill(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.standsStill(now)
}

// TakeOut records that the upstream gets no new calls. From then on the upstream counts as stalled
// until something moves.
func (w *Watch) TakeOut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.out = true
}

// Forget starts over, because the engine may be another one.
func (w *Watch) Forget(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m = machine{last: w.m.last, since: now, ours: now}
}

// Resume records that the engine was busy and is back. The time that it stood still until now does
// not count.
func (w *Watch) Resume(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.since, w.m.ours = now, now
}

// MovedSince reports whether something has moved since the given time.
func (w *Watch) MovedSince(then time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.moved.After(then)
}

// Works reports whether the engine visibly works: the engine has counters, and the counters, or
// answers to this edge, have moved recently enough.
func (w *Watch) Works(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.counts && !w.m.out && !w.m.still(now)
}

// Lost reports whether a call that has been silent since the given time is lost.
func (w *Watch) Lost(silentSince, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.lost(silentSince, int(w.waiting.Load()), now)
}

// Facts is the knowledge of a Watch, for the status page.
type Facts struct {
	Counts bool          // the engine has readable counters
	Held   bool          // the engine has calls from this edge
	Still  time.Duration // time for which the engine has stood still
	Bound  time.Duration // the engine counts as stalled if Still exceeds this
	Step   time.Duration // the usual step; 0: not known yet
}

// Facts returns the present facts.
func (w *Watch) Facts(now time.Time) Facts {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := Facts{Counts: w.m.counts, Held: w.m.last.Held > 0, Bound: w.m.bound()}
	if f.Held || w.m.out {
		f.Still = max(0, now.Sub(w.m.since))
	}
	if w.m.moves >= stepsNeeded {
		f.Step = w.m.step
	}
	return f
}
