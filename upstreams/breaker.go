package upstreams

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/engine"
)

// Breaker is the state of an upstream's circuit breaker.
type Breaker uint8

// A closed breaker admits every call and an open breaker admits none. A half-open breaker admits
// one call at a time.
const (
	BreakerClosed Breaker = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns closed, open or half-open.
func (b Breaker) String() string { return [...]string{"closed", "open", "half-open"}[b] }

// CircuitBreaker takes an engine out of service if its probes succeed but its calls fail. Routing
// reads only the atomics.
type CircuitBreaker struct {
	openUntil atomic.Int64             // time (ticks) until which no call is admitted, or breakerClosed
	trial     atomic.Bool              // a trial is running
	barred    atomic.Pointer[[]string] // keys whose calls cannot be the trial
	doubted   atomic.Bool              // the last call failed

	mu      sync.Mutex // never held during I/O
	circuit circuit
	timer   *time.Timer // starts a trial probe; nil until the breaker first opens

	hooks   *hooks
	missing func() // called when the breaker becomes half-open
}

// breakerClosed is the value of openUntil while the breaker is closed.
const breakerClosed = math.MinInt64

// Position returns the breaker's state at the given time.
func (b *CircuitBreaker) Position(now time.Time) Breaker {
	switch until := b.openUntil.Load(); {
	case until == breakerClosed:
		return BreakerClosed
	case ticks(now) < until:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Bars reports whether calls of the key cannot be the trial, because failures of that key opened
// the breaker or kept it open.
func (b *CircuitBreaker) Bars(key string) bool {
	if b.openUntil.Load() == breakerClosed {
		return false
	}
	barred := b.barred.Load()
	return barred != nil && slices.Contains(*barred, key)
}

// Doubted reports whether calls have failed since the last success. While Doubted returns true,
// callers hash each request body, because the hash is needed as evidence if the call fails.
func (b *CircuitBreaker) Doubted() bool { return b.doubted.Load() }

// passes reports whether the breaker is closed, or half-open without a running trial.
func (b *CircuitBreaker) passes(now Moment) bool {
	until := b.openUntil.Load()
	return until == breakerClosed || int64(now) >= until && !b.trial.Load()
}

// admit reports whether the key's call may proceed, and whether the call is the trial. A
// compare-and-swap ensures that at most one call is the trial.
func (b *CircuitBreaker) admit(key string, now time.Time) (trial, ok bool) {
	until := b.openUntil.Load()
	if until == breakerClosed {
		return false, true
	}
	ok = ticks(now) >= until && !b.Bars(key) && b.trial.CompareAndSwap(false, true)
	return ok, ok
}

// outcome records the outcome of a call. It reports whether a generation probe should confirm the
// failure.
func (b *CircuitBreaker) outcome(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		defer b.trial.Store(false)
	}
	generate = b.circuit.outcome(o, by, trial, now)
	cause := "calls fail"
	if !b.circuit.open {
		cause = "a call went well"
	}
	b.publish(cause, now)
	return generate
}

func (b *CircuitBreaker) generation(g engine.Generation, trial bool, cause string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.circuit.generation(g, trial, now)
	b.publish(cause, now)
}

// passTrial closes the breaker while the trial still runs.
func (b *CircuitBreaker) passTrial(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.trial.Store(false)
	b.circuit.close(now)
	b.publish("a trial goes on well", now)
}

// publish copies the circuit's state to the atomics, and logs a change. The caller holds mu.
func (b *CircuitBreaker) publish(cause string, now time.Time) {
	c := &b.circuit
	if doubted := c.failures > 0; doubted != b.doubted.Load() {
		b.doubted.Store(doubted)
	}
	until, was := int64(breakerClosed), b.openUntil.Load()
	if c.open {
		until = ticks(c.openUntil)
	}
	if c.open || was != breakerClosed {
		barred := c.barred // a copy, because the circuit replaces its slice
		b.barred.Store(&barred)
	}
	if until == was {
		return
	}
	b.openUntil.Store(until)
	if b.timer != nil {
		b.timer.Stop()
	}
	if c.open {
		b.timer = time.AfterFunc(c.openUntil.Sub(now), b.halfOpen)
	}
	b.hooks.room()
	if (until == breakerClosed) != (was == breakerClosed) {
		level, event, remedy := zap.InfoLevel, "breaker_closed", zap.Skip()
		if c.open {
			level, event, remedy = zap.WarnLevel, "breaker_open", zap.String("remedy", "penstock explain PenstockBreakerOpen")
		}
		b.hooks.log.Log(level, "upstream breaker", zap.String("event", event), zap.String("cause", cause), remedy)
	}
}

// halfOpen wakes waiting calls, because one of them may now be the trial.
func (b *CircuitBreaker) halfOpen() {
	defer b.hooks.guard.Catch(guardRoom, nil)
	defer b.missing()
	b.hooks.guard.Point(guardRoom)
	b.hooks.room()
}

// trialMissing reports whether the breaker is half-open and calls of some keys cannot be the trial.
func (b *CircuitBreaker) trialMissing() bool {
	until, barred := b.openUntil.Load(), b.barred.Load()
	return until != breakerClosed && ticks(time.Now()) >= until && barred != nil && len(*barred) > 0
}

// lookLater stores timer if a trial is missing, and stops timer otherwise.
func (b *CircuitBreaker) lookLater(timer *time.Timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trialMissing() {
		b.timer = timer
	} else {
		timer.Stop()
	}
}

// doubt returns the number of consecutive failures, and whether a generation probe should follow
// soon.
func (b *CircuitBreaker) doubt() (failures int, look bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.failures, b.circuit.inDoubt()
}

// headStart returns how long only other clients may send the trial. After that time, the trial may
// be a generation probe or a call of the barred client.
func (b *CircuitBreaker) headStart() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.circuit.unprobed {
		return unprobedHeadStart
	}
	return trialHeadStart
}

// broken reports whether any response has broken off since the last success.
func (b *CircuitBreaker) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.broken
}
