package process

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestPaceForHeap(t *testing.T) {
	for _, c := range []struct {
		live uint64
		pace int
		want int
	}{
		{0, looseGCPercent, looseGCPercent},
		{loosePaceMaxHeapBytes - 1, defaultGCPercent, looseGCPercent},
		{loosePaceMaxHeapBytes, defaultGCPercent, defaultGCPercent},
		{loosePaceMaxHeapBytes, tightGCPercent, defaultGCPercent},
		{loosePaceEndHeapBytes - 1, looseGCPercent, looseGCPercent},
		{loosePaceEndHeapBytes, looseGCPercent, defaultGCPercent},
		{tightPaceMinHeapBytes - 1, looseGCPercent, defaultGCPercent},
		{tightPaceMinHeapBytes - 1, defaultGCPercent, defaultGCPercent},
		{tightPaceMinHeapBytes, defaultGCPercent, tightGCPercent},
		{tightPaceEndHeapBytes, tightGCPercent, tightGCPercent},
		{tightPaceEndHeapBytes - 1, tightGCPercent, defaultGCPercent},
	} {
		if got := paceForHeap(c.live, c.pace); got != c.want {
			t.Errorf("paceForHeap(%+v) = %d, want %d", c, got, c.want)
		}
	}
}

// TestPacerFloor checks a busy process whose live heap is smaller than the floor. It must collect
// when the heap reaches the floor. The floor must not affect an idle process.
func TestPacerFloor(t *testing.T) {
	const mib = 1 << 20
	var set int
	p := gcPacer{floor: gcHeapFloor, pace: defaultGCPercent, targetPace: defaultGCPercent, setPercent: func(percent int) { set = percent }}
	now := time.Now()
	for _, c := range []struct {
		since         time.Duration
		live, counted uint64
		goal          uint64 // expected goal in MiB; may differ by an eighth
	}{
		{time.Hour, 2 * mib, 3 * mib, 16},
		{busyMaxGCInterval, 2 * mib, 3 * mib, 16},
		{busyMaxGCInterval - 1, 0, 0, 64},
		{idleMinGCInterval, 2 * mib, 3 * mib, 64},
		{time.Second, 3 * mib, 5 * mib, 64},
		{time.Second, 10 * mib, 25 * mib, 64},
		{time.Second, 40 * mib, 42 * mib, 82}, // the usual pace allows a larger heap
		{time.Second, 60 * mib, 62 * mib, 85}, // the tight pace allows a larger heap
		{time.Second, 40 * mib, 42 * mib, 64},
		{time.Second, 5 * mib, 6 * mib, 64},
		{idleMinGCInterval + 1, 5 * mib, 6 * mib, 11},
		{idleMinGCInterval + 1, 3 * mib, 4 * mib, 19},
		{time.Second, 3 * mib, 4 * mib, 64},
	} {
		now = now.Add(c.since)
		h := heapState{live: c.live, paceBase: c.counted}
		p.adaptPace(h, now)
		if goal, want := h.nextCollectionHeap(p.pace), c.goal*mib; goal < want-want/8 || goal > want+want/8 {
			t.Errorf("%+v: %d %%, which is a heap of %.1f MiB", c, p.pace, float64(goal)/mib)
		}
		if set != p.pace {
			t.Errorf("%+v: %d %% is in force, want %d %%", c, set, p.pace)
		}
	}
}

// TestPacerKeeps checks that the pace does not change if the goal would change by less than an
// eighth, because a change briefly stops the process.
func TestPacerKeeps(t *testing.T) {
	sets := 0
	p := gcPacer{floor: gcHeapFloor, pace: defaultGCPercent, targetPace: defaultGCPercent, setPercent: func(int) { sets++ }}
	now := time.Now()
	for live := uint64(8 << 20); live < 9<<20; live += 64 << 10 {
		now = now.Add(time.Second)
		p.adaptPace(heapState{live: live, paceBase: live}, now)
	}
	if sets > 3 {
		t.Errorf("%d changes for a heap that grows by an eighth", sets)
	}
}

func TestAfterEachGC(t *testing.T) {
	var calls atomic.Int64
	afterEachGC(func() {
		if readHeap().live > 0 {
			calls.Add(1)
		}
	})
	for deadline := time.Now().Add(10 * time.Second); calls.Load() < 3; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("%d calls after 10 s, want 3", calls.Load())
		}
		time.Sleep(time.Millisecond)
	}
}
