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

// BreakerState is the state of an upstream's circuit breaker.
type BreakerState uint8

// A closed breaker admits every call, and an open breaker admits no calls. A half-open breaker
// admits one call at a time.
const (
	BreakerClosed BreakerState = iota
	BreakerOpen
	BreakerHalfOpen
)

// String returns closed, open or half-open.
func (b BreakerState) String() string { return [...]string{"closed", "open", "half-open"}[b] }

// CircuitBreaker takes an engine out of service if its probes succeed but its calls fail. Routing
// reads only the atomic fields.
type CircuitBreaker struct {
	openUntil      atomic.Int64 // time, in ticks, until which no call is admitted; or breakerClosed
	trialRunning   atomic.Bool
	barredKeys     atomic.Pointer[[]string] // keys whose calls cannot be the trial
	lastCallFailed atomic.Bool              // the last call failed

	mu      sync.Mutex // never held during I/O
	circuit breakerCircuit
	timer   *time.Timer // starts a trial probe; nil until the breaker first opens

	hooks      *upstreamHooks
	onHalfOpen func() // called when the breaker becomes half-open
}

// breakerClosed is the value of openUntil while the breaker is closed.
const breakerClosed = math.MinInt64

// StateAt returns the breaker's state at the given time.
func (b *CircuitBreaker) StateAt(now time.Time) BreakerState {
	switch until := b.openUntil.Load(); {
	case until == breakerClosed:
		return BreakerClosed
	case momentTicks(now) < until:
		return BreakerOpen
	}
	return BreakerHalfOpen
}

// BarsKeyFromTrial reports whether calls of the key cannot be the trial, because failures of that
// key opened the breaker or kept it open.
func (b *CircuitBreaker) BarsKeyFromTrial(key string) bool {
	if b.openUntil.Load() == breakerClosed {
		return false
	}
	barred := b.barredKeys.Load()
	return barred != nil && slices.Contains(*barred, key)
}

// HasFailures reports whether calls have failed since the last success. While HasFailures returns
// true, callers hash each request body, because the breaker needs the hash as evidence if the call
// fails.
func (b *CircuitBreaker) HasFailures() bool { return b.lastCallFailed.Load() }

// admitsCalls reports whether the breaker is closed, or half-open without a running trial.
func (b *CircuitBreaker) admitsCalls(now Moment) bool {
	until := b.openUntil.Load()
	return until == breakerClosed || int64(now) >= until && !b.trialRunning.Load()
}

// admitCall reports whether the key's call may proceed, and whether the call is the trial. A
// compare-and-swap ensures that at most one call is the trial.
func (b *CircuitBreaker) admitCall(key string, now time.Time) (trial, ok bool) {
	until := b.openUntil.Load()
	if until == breakerClosed {
		return false, true
	}
	ok = momentTicks(now) >= until && !b.BarsKeyFromTrial(key) && b.trialRunning.CompareAndSwap(false, true)
	return ok, ok
}

// recordOutcome records the outcome of a call. It reports whether a generation probe should confirm
// the failure.
func (b *CircuitBreaker) recordOutcome(o Outcome, by FailureSource, trial bool, now time.Time) (generate bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if trial {
		defer b.trialRunning.Store(false)
	}
	generate = b.circuit.recordOutcome(o, by, trial, now)
	cause := "calls fail"
	if !b.circuit.isOpen {
		cause = "a call went well"
	}
	b.publishAndLogState(cause, now)
	return generate
}

func (b *CircuitBreaker) recordGeneration(g engine.GenerationVerdict, trial bool, cause string, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.circuit.recordGeneration(g, trial, now)
	b.publishAndLogState(cause, now)
}

// closeDuringTrial closes the breaker while the trial is still running.
func (b *CircuitBreaker) closeDuringTrial(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.trialRunning.Store(false)
	b.circuit.close(now)
	b.publishAndLogState("a trial goes on well", now)
}

// publishAndLogState copies the circuit's state to the atomic fields, and logs a change. The caller
// must hold mu.
func (b *CircuitBreaker) publishAndLogState(cause string, now time.Time) {
	c := &b.circuit
	if doubted := c.failures > 0; doubted != b.lastCallFailed.Load() {
		b.lastCallFailed.Store(doubted)
	}
	until, was := int64(breakerClosed), b.openUntil.Load()
	if c.isOpen {
		until = momentTicks(c.openUntil)
	}
	if c.isOpen || was != breakerClosed {
		barred := c.barredKeys // a copy, because the circuit replaces its slice
		b.barredKeys.Store(&barred)
	}
	if until == was {
		return
	}
	b.openUntil.Store(until)
	if b.timer != nil {
		b.timer.Stop()
	}
	if c.isOpen {
		b.timer = time.AfterFunc(c.openUntil.Sub(now), b.wakeForTrial)
	}
	b.hooks.wakeWaiting()
	if (until == breakerClosed) != (was == breakerClosed) {
		level, event, remedy := zap.InfoLevel, "breaker_closed", zap.Skip()
		if c.isOpen {
			level, event, remedy = zap.WarnLevel, "breaker_open", zap.String("remedy", "penstock explain PenstockBreakerOpen")
		}
		b.hooks.log.Log(level, "upstream breaker", zap.String("event", event), zap.String("cause", cause), remedy)
	}
}

// wakeForTrial wakes waiting calls, because one of them may now be the trial.
func (b *CircuitBreaker) wakeForTrial() {
	defer b.hooks.guard.Catch(guardSlotWakeups, nil)
	defer b.onHalfOpen()
	b.hooks.guard.PanicIfInjected(guardSlotWakeups)
	b.hooks.wakeWaiting()
}

// needsTrialProbe reports whether the breaker is half-open and calls of some keys cannot be the
// trial.
func (b *CircuitBreaker) needsTrialProbe() bool {
	until, barred := b.openUntil.Load(), b.barredKeys.Load()
	return until != breakerClosed && momentTicks(time.Now()) >= until && barred != nil && len(*barred) > 0
}

// setTrialTimer stores timer if needsTrialProbe returns true, and stops timer otherwise.
func (b *CircuitBreaker) setTrialTimer(timer *time.Timer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.needsTrialProbe() {
		b.timer = timer
	} else {
		timer.Stop()
	}
}

// consecutiveFailures returns the number of consecutive failures, and whether a generation probe
// should be sent soon.
func (b *CircuitBreaker) consecutiveFailures() (failures int, look bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.failures, b.circuit.isInDoubt()
}

// trialDelay returns how long only calls of keys that are not barred can be the trial. After that
// time, a generation probe or, if no probe is possible, any call can be the trial.
func (b *CircuitBreaker) trialDelay() time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.circuit.cannotProbe {
		return barredTrialHeadStart
	}
	return callTrialHeadStart
}

// hasBrokenResponse reports whether any response has broken off since the last success.
func (b *CircuitBreaker) hasBrokenResponse() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.circuit.responseBroken
}
