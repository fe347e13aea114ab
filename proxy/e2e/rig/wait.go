package rig

import (
	"bytes"
	"sync"
	"testing"
	"time"
)

// Patience is how long the rig waits for what should come at once: long, because the machine may be busy.
const Patience = 20 * time.Second

// Grace is what a busy machine may add to something that is told by how long it takes: shorter than the clock that would be
// waited for if it went wrong.
const Grace = 8 * time.Second

// WaitFor polls until cond holds, and fails the test when it does not within limit. It returns how long it took.
func WaitFor(t testing.TB, limit time.Duration, what string, cond func() bool) time.Duration {
	t.Helper()
	begun := time.Now()
	for pause := 200 * time.Microsecond; !cond(); pause = min(2*pause, 20*time.Millisecond) { // a look is mostly some requests
		if time.Since(begun) > limit {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(pause)
	}
	return time.Since(begun)
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
