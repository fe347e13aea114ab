package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// The sizes of the live heap, in bytes, at which the pace changes. A tiny heap would be collected
// after every few megabytes of small requests, each time for next to nothing: a few megabytes more
// of room make a quarter as many collections. With a large heap, memory is worth more than time.
// Held streams own nearly all of it and allocate next to nothing, so collections are rare at any
// pace, and a percentage less saves that much memory per stream.
const (
	tightAbove = 48 << 20
	tightUntil = 32 << 20 // the usual pace comes back below it
	looseBelow = 4 << 20
	looseUntil = 6 << 20 // the usual pace comes back from it on

	loosePace = 400 // percent of the live heap that may be allocated until the next collection
	usualPace = 100
	tightPace = 40

	boostRoom = 64 << 20 // what a boost may allocate without a collection
)

// PaceGC adapts the garbage collector's pace to the size of the live heap, after each collection,
// for the rest of the process's life. It does not change a pace of the environment (GOGC). Further
// calls do nothing.
var PaceGC = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		afterEachGC(func() { gcPace.adapt(liveHeap()) })
		gcPace.adapt(liveHeap())
		gcPace.adaptive.Store(true)
	}
})

// gcPace is the pace of the process's garbage collector.
var gcPace = pacer{pace: usualPace, set: func(percent int) { debug.SetGCPercent(percent) }, collect: runtime.GC}

type pacer struct {
	adaptive atomic.Bool
	set      func(percent int)
	collect  func()

	mu     sync.Mutex
	pace   int // the last of paceOf
	boosts int // that run
}

// adapt chooses the pace for a heap of live bytes. It takes effect once no boost runs.
func (p *pacer) adapt(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := paceOf(live, p.pace)
	if next != p.pace && p.boosts == 0 {
		p.set(next)
	}
	p.pace = next
}

// beginBoost counts a boost. The first one gives room beyond a heap of live bytes.
func (p *pacer) beginBoost(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts++; p.boosts == 1 {
		p.set(max(p.pace, int(boostRoom*100/max(live, 1<<20))))
	}
}

// endBoost ends a boost. The last one takes the room back from a heap of the given size, of which
// live bytes were found alive. If the heap exceeds the pace, it is collected first: a collection
// that begins behind its goal makes the next allocation do all of the marking at once, and with one
// processor all other goroutines wait for that time.
func (p *pacer) endBoost(heap, live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts--; p.boosts > 0 {
		return
	}
	if heap > live+live*uint64(p.pace)/100 {
		p.collect()
	}
	p.set(p.pace)
}

// paceOf returns the pace for a heap of live bytes, given the one that is in force.
func paceOf(live uint64, pace int) int {
	switch {
	case live >= tightAbove, live >= tightUntil && pace == tightPace:
		return tightPace
	case live < looseBelow, live < looseUntil && pace == loosePace:
		return loosePace
	}
	return usualPace
}

// liveHeap returns the bytes that the last collection found alive.
func liveHeap() uint64 { return readMetric("/gc/heap/live:bytes") }

// usedHeap returns the bytes of live and of uncollected objects.
func usedHeap() uint64 { return readMetric("/memory/classes/heap/objects:bytes") }

func readMetric(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// afterEachGC calls f on the runtime's own goroutine after each collection. Each collection
// finalizes an unreferenced mark, which registers itself again.
func afterEachGC(f func()) {
	type mark struct{ _ [16]byte } // large enough not to share its memory with other objects
	var again func(*mark)
	again = func(m *mark) {
		f()
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(new(mark), again)
}
