// Package wake decides when to wake an engine that is away. However many calls wait for the engine,
// one request is sent to a URL that the operator configures.
//
// An engine is away while its upstream is down, or reports that it sleeps. A call that finds no
// engine of its model asks for a wake. The request is sent once the engine has been away for
// `after`. The request is repeated only after the time allowed for a start: three times the last
// start's duration, and at least two minutes. If the request fails, the next one may follow ten
// seconds later.
//
// The package does no I/O and has no goroutine, and the time is an argument.
package wake

import (
	"sync"
	"time"

	"penstock/config"
)

const (
	// assumedStart is the assumed duration of a start until one has been seen.
	assumedStart = 30 * time.Second
	// A start may take startsMax times as long as the last one, and at least startMin.
	startsMax = 3
	startMin  = 2 * time.Minute
	// failedPause is the time after a failed request before the next one may follow.
	failedPause = 10 * time.Second
)

// Waker tracks whether one engine is away, and when to wake it. Its methods may be called from any
// goroutine.
type Waker struct {
	start func(Run)

	mu     sync.Mutex
	spec   config.Wake
	away   time.Time     // since when the engine has been away; zero: it is not away
	begun  time.Time     // start of the current attempt; zero: no start is under way
	failed time.Time     // when the last request failed
	took   time.Duration // duration of the last start; 0: none was seen
	over   chan struct{} // closed at the end of the running start; nil: none is running
}

// Run describes one start to the sender of its request.
type Run struct {
	Spec     config.Wake
	Wait     time.Duration   // pause before the request
	Patience time.Duration   // limit for the whole start
	Over     <-chan struct{} // closed when the engine is back, or the request has failed
}

// Init sets the function that sends the request. The function must not block, and reports a failure
// with Failed.
func (w *Waker) Init(start func(Run)) { w.start = start }

// Configure applies the settings.
func (w *Waker) Configure(spec config.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spec = spec
}

// Configured reports whether a request is configured.
func (w *Waker) Configured() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spec.URL != ""
}

// Away records that the engine is gone.
func (w *Waker) Away(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.away.IsZero() {
		w.away = now
	}
}

// Here records that the engine is back.
func (w *Waker) Here(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun.IsZero() {
		w.took = now.Sub(w.begun)
	}
	w.away, w.failed = time.Time{}, time.Time{}
	w.endStart()
}

// endStart ends the running start, if any.
func (w *Waker) endStart() {
	if w.begun = (time.Time{}); w.over != nil {
		close(w.over)
		w.over = nil
	}
}

// Possible reports whether the engine is away and a start is running or may be asked for.
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

// Ask asks for a start, unless one is running or none may be asked for now.
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

// Failed records that the request failed.
func (w *Waker) Failed(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.begun.IsZero() {
		w.failed = now
		w.endStart()
	}
}

// Cancel records that the request will not be sent, so that the next call may ask for a start.
func (w *Waker) Cancel() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endStart()
}

// Expected estimates from the last start how long the engine will still be away; 0 if it is not
// away.
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

// Status is a waker's state at one moment.
type Status struct {
	Away     float64 `json:"away_seconds"`     // -1: not away
	Starting float64 `json:"starting_seconds"` // -1: no start is running
	Took     float64 `json:"last_start_seconds"`
}

// Status returns the waker's state, or nil if no wake is configured.
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
