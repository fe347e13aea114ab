package progress

import (
	"sync"
	"sync/atomic"
	"time"
)

// Watch decides whether one upstream's engine makes progress. Calls report their state through
// atomics, and the prober passes samples and counters. The zero value is ready to use.
type Watch struct {
	waiting atomic.Int64
	buffers atomic.Int64
	unread  atomic.Int64

	mu sync.Mutex // never held during I/O
	m  machine
}

// Waits adds n to the number of calls that have been silent for Patience.
func (w *Watch) Waits(n int64) { w.waiting.Add(n) }

// Buffers adds n to the number of calls whose responses the engine may buffer.
func (w *Watch) Buffers(n int64) { w.buffers.Add(n) }

// Unread adds tokens to the prompt tokens of calls that have no first token yet. The number
// includes tokens that are probably cached. Otherwise, if the cache is gone, a prefill could look
// like a stall.
func (w *Watch) Unread(tokens int64) { w.unread.Add(tokens) }

// FirstToken records a call's time to first token and its prompt tokens.
func (w *Watch) FirstToken(took time.Duration, tokens int64) {
	if tokens < learnFrom {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.firstToken(took, tokens)
}

// Sample records a sample. It fills in Waiting, Buffers and Unread.
func (w *Watch) Sample(s Sample) {
	s.Waiting, s.Buffers, s.Unread = int(w.waiting.Load()), int(w.buffers.Load()), w.unread.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.sample(s)
}

// Count records the sum of the engine's counters. It reports whether the sum indicates a restart of
// the engine.
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

// Moved records progress from a source other than calls and counters.
func (w *Watch) Moved(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.move(at, w.m.last.Unread)
}

// Report records the requests that the engine reports, and the number of this edge's calls.
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

// StandsStill reports whether the engine's counters prove a stall.
func (w *Watch) StandsStill(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.standsStill(now)
}

// TakeOut records that the upstream is out of service. It then counts as stalled until something
// moves.
func (w *Watch) TakeOut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.out = true
}

// Forget resets the Watch, because a different engine may now use the address.
func (w *Watch) Forget(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m = machine{last: w.m.last, since: now, ours: now}
}

// Resume records that the engine was busy and is up again. The time without progress starts again.
func (w *Watch) Resume(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.m.since, w.m.ours = now, now
}

// MovedSince reports whether the engine has made progress since the given time.
func (w *Watch) MovedSince(then time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.moved.After(then)
}

// Works reports whether the engine has counters and makes progress.
func (w *Watch) Works(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.counts && !w.m.out && !w.m.still(now)
}

// Lost reports whether a call that has been silent since silentSince is lost.
func (w *Watch) Lost(silentSince, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.m.lost(silentSince, int(w.waiting.Load()), now)
}

// Facts describes a Watch for the status page.
type Facts struct {
	Counts bool          // the engine has counters
	Held   bool          // this edge has calls at the engine
	Still  time.Duration // time without progress
	Bound  time.Duration // the engine stalls when Still exceeds this
	Step   time.Duration // the usual step, or 0 if unknown
}

// Facts returns the current facts.
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
