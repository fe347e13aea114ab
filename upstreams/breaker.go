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

// Breaker is the position of an upstream's breaker.
type Breaker uint8

// The positions: closed lets every call through, open lets none through, and half-open lets one
// through at a time.
const (
	BreakerClosed Breaker = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns the position's name: closed, open or half-open.
func (b Breaker) String() string { return [...]string{"closed", "open", "half-open"}[b] }

// CircuitBreaker keeps calls away from an engine that answers its probes but fails its work. Picks
// read the atomics that it publishes.
type CircuitBreaker struct {
	openUntil atomic.Int64             // no call passes before this time (ticks), or breakerClosed
	trial     atomic.Bool              // the trial of the half-open breaker is taken
	barred    atomic.Pointer[[]string] // keys whose calls cannot be the trial
	doubted   atomic.Bool              // calls have failed since the last success

	mu      sync.Mutex // held only for bookkeeping
	circuit circuit
	timer   *time.Timer // looks for a trial; nil before the breaker has opened

	hooks   *hooks
	missing func() // called when the breaker has become half-open
}

// breakerClosed is the openUntil of a closed breaker.
const breakerClosed = math.MinInt64

// Position returns the breaker's position now.
func (b *CircuitBreaker) Position(now time.Time) Breaker {
	switch until := b.openUntil.Load(); {
	case until == breakerClosed:
		return BreakerClosed
	case ticks(now) < until:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// Bars reports whether a key's calls cannot be the trial of the open or half-open breaker, because
// their failures opened the breaker.
func (b *CircuitBreaker) Bars(key string) bool {
	if b.openUntil.Load() == breakerClosed {
		return false
	}
	barred := b.barred.Load()
	return barred != nil && slices.Contains(*barred, key)
}

// Doubted reports whether calls have failed here since the last success. The hash of each call's
// body is then kept, as evidence if that call fails, too.
func (b *CircuitBreaker) Doubted() bool { return b.doubted.Load() }

// passes reports whether the breaker is closed, or its trial is free.
func (b *CircuitBreaker) passes(now Moment) bool {
	until := b.openUntil.Load()
	return until == breakerClosed || int64(now) >= until && !b.trial.Load()
}

// admit lets a key's call pass, possibly as the trial. A compare-and-swap decides which call is
// the trial.
func (b *CircuitBreaker) admit(key string, now time.Time) (trial, ok bool) {
	until := b.openUntil.Load()
	if until == breakerClosed {
		return false, true
	}
	ok = ticks(now) >= until && !b.Bars(key) && b.trial.CompareAndSwap(false, true)
	return ok, ok
}

// outcome records a call's outcome. It reports whether a generation probe should confirm that the
// engine fails.
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

// generation records the verdict of a generation probe.
func (b *CircuitBreaker) generation(g engine.Generation, trial bool, cause string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.circuit.generation(g, trial, now)
	b.publish(cause, now)
}

// passTrial closes the breaker although the trial is still running.
func (b *CircuitBreaker) passTrial(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.trial.Store(false)
	b.circuit.close(now)
	b.publish("a trial goes on well", now)
}

// publish copies the circuit's verdict to the atomics, and logs a change. The caller holds mu.
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
		barred := c.barred // a copy: the circuit replaces its own slice
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

// halfOpen wakes waiting calls: one of them may now be the breaker's trial.
func (b *CircuitBreaker) halfOpen() {
	defer b.hooks.guard.Catch(guardRoom, nil)
	defer b.missing()
	b.hooks.guard.Point(guardRoom)
	b.hooks.room()
}

// trialMissing reports whether the breaker is half-open and bars some calls from its trial.
func (b *CircuitBreaker) trialMissing() bool {
	until, barred := b.openUntil.Load(), b.barred.Load()
	return until != breakerClosed && ticks(time.Now()) >= until && barred != nil && len(*barred) > 0
}

// lookLater sets the timer that looks for a trial, if trialMissing() is true.
func (b *CircuitBreaker) lookLater(timer *time.Timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.trialMissing() {
		b.timer = timer
	} else {
		timer.Stop()
	}
}

// doubt returns the number of calls in a row that have failed, and whether a generation probe
// should follow soon.
func (b *CircuitBreaker) doubt() (failures int, look bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.failures, b.circuit.inDoubt()
}

// headStart returns the time for which only other clients' calls may become the trial. After that,
// a generation probe or a call of the client whose trial failed may become the trial.
func (b *CircuitBreaker) headStart() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.circuit.unprobed {
		return unprobedHeadStart
	}
	return trialHeadStart
}

// broken reports whether answers have broken off since the last success.
func (b *CircuitBreaker) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.broken
}
