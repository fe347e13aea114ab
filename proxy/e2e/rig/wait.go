package rig

import (
	"bytes"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Patience is how long the rig waits for what should come at once: long, because the machine may be
// busy.
const Patience = 20 * time.Second

// Grace is what a busy machine may add to something that is told by how long it takes: shorter than
// the clock that would be waited for if it went wrong.
const Grace = 8 * time.Second

// AtOnce is how long what comes at once may take on a machine that has nothing else to do.
const AtOnce = 5 * time.Second

// WaitFor polls until cond holds, and fails the test when it does not within limit. It returns how
// long it took. The limit Patience is for a busy machine: what came late although the machine was
// not busy has failed, too. A shorter limit is what the product may take, and a machine that is
// busy meanwhile adds to it, up to Patience.
func WaitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := StartWatch()
	defer func() {
		if limit == Patience && !t.Failed() {
			begun.WantAtOnce(t, what)
		}
	}()
	// a look is mostly some requests
	for pause := 200 * time.Microsecond; !cond(); pause = min(2*pause, 20*time.Millisecond) {
		if took := begun.Took(); took > max(limit, min(limit+begun.Held(), Patience)) {
			t.Fatalf("not within %v, which a busy machine makes %v: %s", limit, took, what)
		}
		time.Sleep(pause)
	}
	return begun.Took()
}

// StopWatch measures a time, and how busy the machine was meanwhile.
type StopWatch struct {
	begun time.Time
	late  int64
}

// StartWatch starts to measure.
func StartWatch() StopWatch { return StopWatch{time.Now(), lateness.Load()} }

// Took is the time since the start.
func (w StopWatch) Took() time.Duration { return time.Since(w.begun) }

// Held is by how much the machine may have held up what was measured: ten times what a goroutine
// that only sleeps was late meanwhile. That is the control, in the same process at the same time.
func (w StopWatch) Held() time.Duration { return 10 * time.Duration(lateness.Load()-w.late) }

// WantAtOnce fails the test if more than AtOnce has passed, and what the machine may have held up.
func (w StopWatch) WantAtOnce(t testing.TB, what string) {
	t.Helper()
	if took, held := w.Took(), w.Held(); took > AtOnce+held {
		t.Errorf("%s: it took %v, of which the machine may have held up %v", what, took, held)
	}
}

// lateness is by how much a goroutine that only sleeps has woken up late until now, in nanoseconds.
var lateness atomic.Int64

// watchMachine keeps lateness until stop is called.
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

// Buffer collects what an edge writes while it is read. It is safe for concurrent use.
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

// String is what has been written so far.
func (l *Buffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
