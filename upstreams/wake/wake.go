// Package wake decides when to wake an engine that is down or asleep. Even if many calls wait for
// the engine, the edge sends only one request, to a URL that the operator configures.
//
// An engine is away while its upstream is down or reports sleep mode. If a call finds no engine for
// its model, the call requests a wake. The edge sends the request once the engine has been away for
// `after`. It repeats the request only if a start takes longer than two minutes and longer than
// three times the last one. If the request failed, the edge waits only ten seconds.
//
// The package does no I/O, starts no goroutines and takes the time as an argument.
package wake

import (
	"sync"
	"time"

	"penstock/config"
)

const (
	// assumedStart is the assumed duration of a start until one was measured.
	assumedStart = 30 * time.Second
	// A start may take startsMax times as long as the last one, but startMin is always allowed.
	startsMax = 3
	startMin  = 2 * time.Minute
	// failedPause is the pause after a failed request.
	failedPause = 10 * time.Second
)

// Waker tracks whether an engine is away, and when to wake it. It is safe for concurrent use.
type Waker struct {
	start func(Run)

	mu     sync.Mutex
	spec   config.Wake
	away   time.Time     // when the engine went away; zero while it is here
	begun  time.Time     // start of the current attempt, or zero
	failed time.Time     // time of the last failed request
	took   time.Duration // duration of the last start, or 0 if unknown
	over   chan struct{} // closed at the end of the current start; nil if no start is running
}

// Run describes one start to the function that sends its request.
type Run struct {
	Spec     config.Wake
	Wait     time.Duration   // delay before the request
	Patience time.Duration   // time limit for the whole start
	Over     <-chan struct{} // closed when the engine is back or the request has failed
}

// Init sets the function that sends the request. That function must not block, and must call Failed
// if the request fails.
func (w *Waker) Init(start func(Run)) { w.start = start }

// Configure applies the settings.
func (w *Waker) Configure(spec config.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spec = spec
}

// Configured reports whether a wake request is configured.
func (w *Waker) Configured() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spec.URL != ""
}

// Away records that the engine is down or asleep.
func (w *Waker) Away(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away.IsZero() {
		w.away = now
	}
}

// Here records that the engine is up again.
func (w *Waker) Here(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun.IsZero() {
		w.took = now.Sub(w.begun)
	}
	w.away, w.failed = time.Time{}, time.Time{}
	w.endStart()
}

func (w *Waker) endStart() {
	if w.begun = (time.Time{}); w.over != nil {
		close(w.over)
		w.over = nil
	}
}

// Possible reports whether the engine is away and a start is running or may be requested.
func (w *Waker) Possible(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starting(now) || w.startable(now)
}

// Starting reports whether a start is running.
func (w *Waker) Starting(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starting(now)
}

// Ask requests a start, unless one is running or not allowed yet.
func (w *Waker) Ask(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.starting(now) || !w.startable(now) {
		return
	}
	w.endStart()
	w.begun, w.over = now, make(chan struct{})
	wait := max(0, w.away.Add(w.spec.After.D()).Sub(now))
	w.start(Run{Spec: w.spec, Wait: wait, Patience: w.patience(), Over: w.over})
}

// Failed records a failed request.
func (w *Waker) Failed(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun.IsZero() {
		w.failed = now
		w.endStart()
	}
}

// Cancel records that the request will not be sent, so that the next call may request a start.
func (w *Waker) Cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endStart()
}

// Expected estimates from the last start how long the engine will still be away. It returns 0 if
// the engine is not away.
func (w *Waker) Expected(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := w.took
	if start == 0 {
		start = assumedStart
	}
	switch {
	case w.away.IsZero():
		return 0
	case w.starting(now):
		return max(time.Second, start-now.Sub(w.begun))
	}
	return start + max(0, w.failed.Add(failedPause).Sub(now))
}

// Status is a snapshot of a Waker.
type Status struct {
	Away     float64 `json:"away_seconds"`     // -1 if not away
	Starting float64 `json:"starting_seconds"` // -1 if no start is running
	Took     float64 `json:"last_start_seconds"`
}

// Status returns a snapshot, or nil if no wake request is configured.
func (w *Waker) Status(now time.Time) *Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.spec.URL == "" {
		return nil
	}
	s := &Status{Away: -1, Starting: -1, Took: w.took.Seconds()}
	if !w.away.IsZero() {
		s.Away = now.Sub(w.away).Seconds()
	}
	if w.starting(now) {
		s.Starting = now.Sub(w.begun).Seconds()
	}
	return s
}

func (w *Waker) patience() time.Duration { return max(startsMax*w.took, startMin) + w.spec.After.D() }

func (w *Waker) starting(now time.Time) bool {
	return !w.away.IsZero() && !w.begun.IsZero() && now.Sub(w.begun) < w.patience()
}

func (w *Waker) startable(now time.Time) bool {
	return w.spec.URL != "" && !w.away.IsZero() && (w.failed.IsZero() || now.Sub(w.failed) >= failedPause)
}
