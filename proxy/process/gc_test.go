package process

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestPaceOf(t *testing.T) {
	for _, c := range []struct {
		live uint64
		pace int
		want int
	}{
		{0, loosePace, loosePace},
		{looseBelow - 1, usualPace, loosePace},
		{looseBelow, usualPace, usualPace},
		{looseBelow, tightPace, usualPace},
		{looseUntil - 1, loosePace, loosePace},
		{looseUntil, loosePace, usualPace},
		{tightAbove - 1, loosePace, usualPace},
		{tightAbove - 1, usualPace, usualPace},
		{tightAbove, usualPace, tightPace},
		{tightUntil, tightPace, tightPace},
		{tightUntil - 1, tightPace, usualPace},
	} {
		if got := paceOf(c.live, c.pace); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

func TestAfterEachGC(t *testing.T) {
	var calls atomic.Int64
	afterEachGC(func() {
		if liveHeap() > 0 {
			calls.Add(1)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); calls.Load() < 3; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls", calls.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
