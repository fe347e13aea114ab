package process

import (
	"os"
	"runtime"
	"slices"
	"testing"
	"time"
)

// TestPacerBoosts checks that a boost lets the heap grow by a fixed amount, regardless of the
// heap's size. A pace chosen during the boost must take effect after the boost. It also checks that
// the boost's garbage is collected first, unless the heap is still smaller than the pace's goal.
func TestPacerBoosts(t *testing.T) {
	const collection = -1
	var did []int
	bytes := func(live uint64) heapState { return heapState{live: live, paceBase: live} }
	p := gcPacer{
		pace:       defaultGCPercent,
		targetPace: defaultGCPercent,
		setPercent: func(percent int) { did = append(did, percent) },
		collect:    func() { did = append(did, collection) },
	}
	p.beginBoost(bytes(16 << 20))
	p.beginBoost(bytes(32 << 20))
	p.adaptPace(bytes(tightPaceMinHeapBytes), time.Time{})
	p.endBoost(1<<40, bytes(1<<20)) // another boost is still running
	p.endBoost(tightPaceMinHeapBytes+tightPaceMinHeapBytes*tightGCPercent/100, bytes(tightPaceMinHeapBytes))
	p.beginBoost(bytes(1 << 40))
	p.endBoost(tightPaceMinHeapBytes+tightPaceMinHeapBytes*tightGCPercent/100+1, bytes(tightPaceMinHeapBytes))
	p.adaptPace(bytes(tightPaceEndHeapBytes-1), time.Time{})
	if want := []int{400, tightGCPercent, tightGCPercent, collection, tightGCPercent, defaultGCPercent}; !slices.Equal(did, want) {
		t.Errorf("got %v, want %v", did, want)
	}
}

// TestBoostProcessor checks that the process has exactly one more processor during boosts,
// regardless of their number.
func TestBoostProcessor(t *testing.T) {
	own := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(own) })
	check := func(when string, want int) {
		t.Helper()
		if n := runtime.GOMAXPROCS(0); n != want {
			t.Errorf("%s: %d processors, want %d", when, n, want)
		}
	}
	boosts := func(own int) {
		t.Helper()
		first := BoostProcessors()
		check("in a boost", own+1)
		second := BoostProcessors()
		check("in two", own+1)
		first()
		check("in the second", own+1)
		second()
		check("afterwards", own)
	}
	t.Run("chosen", func(t *testing.T) {
		t.Setenv("GOMAXPROCS", "1")
		runtime.GOMAXPROCS(1)
		boosts(1)
	})
	t.Run("default", func(t *testing.T) {
		t.Setenv("GOMAXPROCS", "") // Setenv restores GOMAXPROCS at the end
		os.Unsetenv("GOMAXPROCS")
		runtime.SetDefaultGOMAXPROCS()
		boosts(runtime.GOMAXPROCS(0))
	})
}

// TestBoostCollects checks that a boost that allocates a few megabytes causes no collection until
// it ends, if PaceGC is active.
func TestBoostCollects(t *testing.T) {
	if os.Getenv("GOGC") != "" {
		t.Skip("GOGC rules, not PaceGC")
	}
	PaceGC(0) // without a floor
	var before, within, after runtime.MemStats
	done := BoostProcessors()
	runtime.ReadMemStats(&before)
	for range 32 {
		garbage = make([]byte, 1<<20)
	}
	garbage = nil
	runtime.ReadMemStats(&within)
	done()
	runtime.ReadMemStats(&after)
	if n := within.NumGC - before.NumGC; n > 1 { // a collection may already have been running
		t.Errorf("%d collections within the boost", n)
	}
	if within.HeapAlloc < 24<<20 {
		t.Fatalf("only %d bytes of garbage", within.HeapAlloc)
	}
	if after.NumGC == within.NumGC || after.HeapAlloc > within.HeapAlloc/2 {
		t.Errorf("%d collections at its end left %d bytes of %d", after.NumGC-within.NumGC, after.HeapAlloc, within.HeapAlloc)
	}
}

var garbage []byte
