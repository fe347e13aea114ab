package rig

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// WaitTimeout is how long the rig waits for an event that happens immediately unless the machine is
// busy.
const WaitTimeout = 20 * time.Second

// TimingTolerance is the delay that a timed check tolerates. It is shorter than any timeout that a
// faulty edge might wait for.
const TimingTolerance = 8 * time.Second

// ImmediateLimit is how long an immediate action may take on an otherwise idle machine.
const ImmediateLimit = 5 * time.Second

// WaitFor polls until cond returns true, and returns how long this took. If the machine is busy,
// WaitFor extends limit. If limit is WaitTimeout, cond must return true within ImmediateLimit,
// unless the machine is busy.
func WaitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := StartWatch()
	defer func() {
		if limit == WaitTimeout && !t.Failed() {
			begun.WantImmediate(t, what)
		}
	}()
	// The pauses grow, because cond usually sends requests.
	for pause := 200 * time.Microsecond; !cond(); pause = min(2*pause, 20*time.Millisecond) {
		if begun.exceeds(limit) {
			t.Fatalf("not within %v, which a busy machine makes %v: %s", limit, begun.Elapsed(), what)
		}
		time.Sleep(pause)
	}
	return begun.Elapsed()
}

// Receive returns the next value of from, or the zero value if from is closed. If there is no value
// within limit, Receive fails the test before the package's deadline.
func Receive[T any](t testing.TB, limit time.Duration, what string, from <-chan T) T {
	t.Helper()
	for begun := StartWatch(); ; {
		select {
		case v := <-from:
			return v
		case <-time.After(100 * time.Millisecond):
			if begun.exceeds(limit) {
				t.Fatalf("not within %v, which a busy machine makes %v: %s", limit, begun.Elapsed(), what)
			}
		}
	}
}

// StopWatch measures the elapsed time, and how busy the machine was during that time.
type StopWatch struct {
	begun         time.Time
	startLateness int64
}

// StartWatch returns a running StopWatch.
func StartWatch() StopWatch { return StopWatch{time.Now(), totalWakeDelay.Load()} }

// Elapsed returns the time since the start.
func (w StopWatch) Elapsed() time.Duration { return time.Since(w.begun) }

// MachineDelay returns how much a busy machine may have delayed the measured operation. This is ten
// times the total lateness of a goroutine that only sleeps.
func (w StopWatch) MachineDelay() time.Duration {
	return 10 * time.Duration(totalWakeDelay.Load()-w.startLateness)
}

// StepDelay returns how much a busy machine may have delayed a single step, such as a request. This
// is ten times the mean lateness.
func (w StopWatch) StepDelay() time.Duration {
	naps := max(1, (w.Elapsed()-time.Duration(totalWakeDelay.Load()-w.startLateness))/wakeDelaySleep)
	return w.MachineDelay() / naps
}

// exceeds reports whether the elapsed time exceeds limit. If the machine is busy, limit is extended
// by up to twice WaitTimeout.
func (w StopWatch) exceeds(limit time.Duration) bool {
	return w.Elapsed() > limit+min(w.MachineDelay(), 2*WaitTimeout)
}

// WantImmediate fails the test if more than ImmediateLimit has passed, not counting the delay that a busy
// machine may have caused.
func (w StopWatch) WantImmediate(t testing.TB, what string) {
	t.Helper()
	if took, held := w.Elapsed(), w.MachineDelay(); took > ImmediateLimit+held {
		t.Errorf("%s: it took %v, of which the machine may have held up %v", what, took, held)
	}
}

const wakeDelaySleep = 5 * time.Millisecond

// totalWakeDelay is the total wake-up delay of a goroutine that only sleeps, in nanoseconds.
var totalWakeDelay atomic.Int64

// trackWakeDelay updates totalWakeDelay until stop is called.
func trackWakeDelay() (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			begun := time.Now()
			select {
			case <-end:
				return
			case <-time.After(wakeDelaySleep):
				totalWakeDelay.Add(int64(time.Since(begun) - wakeDelaySleep))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// Buffer collects an edge's output. It is safe for concurrent use.
type Buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write appends p.
func (l *Buffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// Sync implements zapcore.WriteSyncer.
func (l *Buffer) Sync() error { return nil }

// String returns the output so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
