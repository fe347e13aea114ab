package rig

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Patience is how long the rig waits for something that should happen at once. It is long because
// the machine may be busy.
const Patience = 20 * time.Second

// Grace is the delay that a timed check allows on a busy machine. It is shorter than the timeout
// for which a failing edge would wait.
const Grace = 8 * time.Second

// AtOnce is how long something immediate may take on an otherwise idle machine.
const AtOnce = 5 * time.Second

// WaitFor polls until cond holds, and fails the test if it does not hold within limit. It returns
// how long that took. The limit Patience allows for a busy machine; on an idle machine a late
// success fails, too. A shorter limit is the time that the product may take; a busy machine extends
// it, up to Patience.
func WaitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := StartWatch()
	defer func() {
		if limit == Patience && !t.Failed() {
			begun.WantAtOnce(t, what)
		}
	}()
	// cond usually sends requests
	for pause := 200 * time.Microsecond; !cond(); pause = min(2*pause, 20*time.Millisecond) {
		if took := begun.Took(); took > max(limit, min(limit+begun.Held(), Patience)) {
			t.Fatalf("not within %v, which a busy machine makes %v: %s", limit, took, what)
		}
		time.Sleep(pause)
	}
	return begun.Took()
}

// StopWatch measures a time, and how busy the machine was during it.
type StopWatch struct {
	begun time.Time
	late  int64
}

// StartWatch starts to measure.
func StartWatch() StopWatch { return StopWatch{time.Now(), lateness.Load()} }

// Took returns the time since the start.
func (w StopWatch) Took() time.Duration { return time.Since(w.begun) }

// Held returns how much the machine may have delayed the measured operation: ten times the lateness
// of a goroutine that only sleeps. That goroutine is the control measurement, in the same process
// at the same time.
func (w StopWatch) Held() time.Duration { return 10 * time.Duration(lateness.Load()-w.late) }

// WantAtOnce fails the test if more than AtOnce has passed, not counting the machine's possible
// delay.
func (w StopWatch) WantAtOnce(t testing.TB, what string) {
	t.Helper()
	if took, held := w.Took(), w.Held(); took > AtOnce+held {
		t.Errorf("%s: it took %v, of which the machine may have held up %v", what, took, held)
	}
}

// lateness is the total delay, in nanoseconds, with which a goroutine that only sleeps has woken
// up.
var lateness atomic.Int64

// watchMachine updates lateness until stop is called.
func watchMachine() (stop func()) {
	const nap = 5 * time.Millisecond
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			begun := time.Now()
			select {
			case <-end:
				return
			case <-time.After(nap):
				lateness.Add(int64(time.Since(begun) - nap))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// Buffer collects an edge's output and can be read while the edge writes. It is safe for concurrent
// use.
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

// String returns what has been written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
