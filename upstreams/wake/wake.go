// Package wake decides when to wake an engine that is down or asleep. Even if many calls are
// waiting for the engine, the edge sends only one request, to a URL that the operator configures.
//
// An engine is away while its upstream is down or reports sleep mode. If no engine is available for
// a call's model, the call requests a start. The edge sends the wake request once the engine has
// been away for the configured time `after`. It repeats the request only if the start takes longer
// than two minutes and longer than three times the duration of the last start. If the request
// fails, the edge may repeat it after ten seconds.
//
// The package does no I/O and starts no goroutines, and its methods get the time as an argument.
package wake

import (
	"sync"
	"time"

	"penstock/config"
)

const (
	// assumedStartTime is the assumed duration of a start until a start has been measured.
	assumedStartTime = 30 * time.Second
	// A start times out after maxStartFactor times the duration of the last start, but never before
	// minStartTimeout.
	maxStartFactor  = 3
	minStartTimeout = 2 * time.Minute
	// failurePause is the pause after a failed request.
	failurePause = 10 * time.Second
)

// Waker tracks whether an engine is away, and when to wake it. It is safe for concurrent use.
type Waker struct {
	sendWake func(StartRequest)

	mu            sync.Mutex
	spec          config.Wake
	awaySince     time.Time     // when the engine went away; zero while it is not away
	startBegun    time.Time     // start of the current attempt, or zero
	lastFailure   time.Time     // time of the last failed request
	lastStartTime time.Duration // duration of the last start, or 0 if unknown
	startDone     chan struct{} // closed at the end of the current start; nil if no start is running
}

// StartRequest describes one start to the function that sends its request.
type StartRequest struct {
	Spec     config.Wake
	Wait     time.Duration   // delay before the request
	Patience time.Duration   // time limit for the whole start
	Over     <-chan struct{} // closed when the engine is back or the request has failed
}

// Init sets the function that sends the request. That function must not block. If the request
// fails, RecordFailure must be called.
func (w *Waker) Init(start func(StartRequest)) { w.sendWake = start }

// Configure applies the settings.
func (w *Waker) Configure(spec config.Wake) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spec = spec
}

// IsConfigured reports whether a wake URL is configured.
func (w *Waker) IsConfigured() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.spec.URL != ""
}

// RecordAway records that the engine is down or asleep.
func (w *Waker) RecordAway(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.awaySince.IsZero() {
		w.awaySince = now
	}
}

// RecordReady records that the engine is up again.
func (w *Waker) RecordReady(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.startBegun.IsZero() {
		w.lastStartTime = now.Sub(w.startBegun)
	}
	w.awaySince, w.lastFailure = time.Time{}, time.Time{}
	w.endStart()
}

func (w *Waker) endStart() {
	if w.startBegun = (time.Time{}); w.startDone != nil {
		close(w.startDone)
		w.startDone = nil
	}
}

// CanWake reports whether the engine is away, and a start is running or may be requested.
func (w *Waker) CanWake(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isStarting(now) || w.canStart(now)
}

// IsStarting reports whether a start is running.
func (w *Waker) IsStarting(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isStarting(now)
}

// RequestStart requests a start, unless a start is running or is not allowed yet.
func (w *Waker) RequestStart(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.isStarting(now) || !w.canStart(now) {
		return
	}
	w.endStart()
	w.startBegun, w.startDone = now, make(chan struct{})
	wait := max(0, w.awaySince.Add(w.spec.After.D()).Sub(now))
	w.sendWake(StartRequest{Spec: w.spec, Wait: wait, Patience: w.computeStartTimeout(), Over: w.startDone})
}

// RecordFailure records a failed request.
func (w *Waker) RecordFailure(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.startBegun.IsZero() {
		w.lastFailure = now
		w.endStart()
	}
}

// CancelStart records that the request will not be sent, so that the next call may request a start.
func (w *Waker) CancelStart() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endStart()
}

// ExpectedWait estimates, from the duration of the last start, how much longer the engine will be
// away. It returns 0 if the engine is not away.
func (w *Waker) ExpectedWait(now time.Time) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	start := w.lastStartTime
	if start == 0 {
		start = assumedStartTime
	}
	switch {
	case w.awaySince.IsZero():
		return 0
	case w.isStarting(now):
		return max(time.Second, start-now.Sub(w.startBegun))
	}
	return start + max(0, w.lastFailure.Add(failurePause).Sub(now))
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
	s := &Status{Away: -1, Starting: -1, Took: w.lastStartTime.Seconds()}
	if !w.awaySince.IsZero() {
		s.Away = now.Sub(w.awaySince).Seconds()
	}
	if w.isStarting(now) {
		s.Starting = now.Sub(w.startBegun).Seconds()
	}
	return s
}

func (w *Waker) computeStartTimeout() time.Duration {
	return max(maxStartFactor*w.lastStartTime, minStartTimeout) + w.spec.After.D()
}

func (w *Waker) isStarting(now time.Time) bool {
	return !w.awaySince.IsZero() && !w.startBegun.IsZero() && now.Sub(w.startBegun) < w.computeStartTimeout()
}

func (w *Waker) canStart(now time.Time) bool {
	return w.spec.URL != "" && !w.awaySince.IsZero() && (w.lastFailure.IsZero() || now.Sub(w.lastFailure) >= failurePause)
}
