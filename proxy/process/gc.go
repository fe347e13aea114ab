package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
)

// The sizes of the live heap, in bytes, at which the pace changes. While it is tiny, collections would follow each other after
// every few megabytes of small requests, each for next to nothing: a few megabytes more of room make them a quarter as many.
// While it is large, memory is worth more than time. Nearly all of it is what held streams hold; they allocate next to nothing, so
// collections are rare at any pace, and a percentage less is that much less per stream.
const (
	largeHeap = 48 << 20
	smallHeap = 32 << 20 // and below which the pace is the usual one again
	tinyHeap  = 4 << 20
	leastHeap = 6 << 20 // and above which it is the usual one

	loosePace = 400 // percent of the live heap that may be allocated until the next collection
	usualPace = 100
	tightPace = 40

	burstRoom = 64 << 20 // what a burst may allocate without a collection
)

// PaceGC adapts the garbage collector's pace to the size of the live heap, after each collection, for the rest of the
// process's life. It leaves a pace that the environment sets (GOGC) alone. Further calls do nothing.
var PaceGC = sync.OnceFunc(func() {
	if os.Getenv("GOGC") == "" {
		afterEachGC(func() { collector.adapt(liveHeap()) })
		collector.adapt(liveHeap())
		collector.paced.Store(true)
	}
})

// collector is the pace of the process's garbage collector.
var collector = pacer{pace: usualPace, set: func(percent int) { debug.SetGCPercent(percent) }, collect: runtime.GC}

type pacer struct {
	paced   atomic.Bool
	set     func(percent int)
	collect func()

	mu     sync.Mutex
	pace   int // the last of paceOf
	bursts int // that are under way
}

// adapt chooses the pace for a heap of live bytes; it counts once no burst is under way.
func (p *pacer) adapt(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := paceOf(live, p.pace)
	if next != p.pace && p.bursts == 0 {
		p.set(next)
	}
	p.pace = next
}

// begin counts a burst. The first one makes room over a heap of live bytes.
func (p *pacer) begin(live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bursts++; p.bursts == 1 {
		p.set(max(p.pace, int(burstRoom*100/max(live, 1<<20))))
	}
}

// end counts a burst off. The last one takes the room back from a heap that holds bytes, of which live were found alive. What
// is more than the pace allows is collected before: a collection that begins behind its goal makes whoever allocates next do
// all of the marking at once, and with one processor nobody else does anything in that time.
func (p *pacer) end(heap, live uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bursts--; p.bursts > 0 {
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
	case live >= largeHeap, live >= smallHeap && pace == tightPace:
		return tightPace
	case live < tinyHeap, live < leastHeap && pace == loosePace:
		return loosePace
	}
	return usualPace
}

// liveHeap is what the last collection found alive, in bytes.
func liveHeap() uint64 { return measure("/gc/heap/live:bytes") }

// usedHeap is what lives and what has not been collected yet, in bytes.
func usedHeap() uint64 { return measure("/memory/classes/heap/objects:bytes") }

func measure(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
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
