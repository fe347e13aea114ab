package limit

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// The live heap, in bytes, from which memory is worth more than time. Below it a collection is cheap per byte that it frees,
// and the default pace keeps the cost of a small request low. Above it nearly all of the heap is what held streams hold:
// they allocate next to nothing, so collections are rare at any pace, and a percentage less is that much less per stream.
const (
	largeHeap = 48 << 20
	smallHeap = 32 << 20 // and below which the pace is the usual one again

	usualPace = 100 // percent of the live heap that may be allocated until the next collection
	tightPace = 40
)

// PaceGC adapts the garbage collector's pace to the size of the live heap, after each collection, for the rest of the
// process's life. It leaves a pace that the environment sets (GOGC) alone. Further calls do nothing.
var PaceGC = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		pace := usualPace
		afterEachGC(func() {
			if next := paceOf(liveHeap(), pace); next != pace {
				pace = next
				debug.SetGCPercent(pace)
			}
		})
	}
})

// paceOf returns the pace for a heap of live bytes, given the one that is in force.
func paceOf(live uint64, pace int) int {
	switch {
	case live >= largeHeap:
		return tightPace
	case live < smallHeap:
		return usualPace
	}
	return pace
}

// liveHeap is what the last collection found alive, in bytes.
func liveHeap() uint64 {
	sample := [1]metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// afterEachGC calls f on the runtime's own goroutine after each collection: what nobody refers to is finalized in every one.
func afterEachGC(f func()) {
	type mark struct{ _ [16]byte } // not so small that it shares its memory with others
	var again func(*mark)
	again = func(m *mark) {
		f()
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(new(mark), again)
}
