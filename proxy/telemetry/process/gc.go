package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// The pace changes at these live heap sizes, in bytes. At the usual pace, a tiny heap would be
// collected after every few megabytes of small requests, with almost no gain. A large heap belongs
// to open streams, which allocate almost no memory. With a large heap, collections are therefore
// rare at any pace, and a lower percentage saves memory.
const (
	tightPaceMinHeapBytes = 48 << 20
	tightPaceEndHeapBytes = 32 << 20 // below this size, the usual pace is restored
	loosePaceMaxHeapBytes = 4 << 20
	loosePaceEndHeapBytes = 6 << 20 // from this size on, the usual pace is restored

	looseGCPercent   = 400 // allocation before the next collection, in percent of the live heap
	defaultGCPercent = 100
	tightGCPercent   = 40

	boostAllocationBytes = 64 << 20 // how many bytes a boost may allocate without a collection
)

// While the process is busy, the collector does not collect a heap that is smaller than the floor.
// For the same load, this reduces the number of collections to a fraction. A process becomes busy
// if it has two collections within busyMaxGCInterval. It becomes idle after idleMinGCInterval without a
// collection, and returns the floor's memory to the system. idleMinGCInterval is much longer than
// busyMaxGCInterval, so that the state does not alternate. There is no floor if the process may use
// less than minMemoryForHeapFloor.
const (
	gcHeapFloor           = 64 << 20
	minMemoryForHeapFloor = 8 * gcHeapFloor

	busyMaxGCInterval = 10 * time.Second
	idleMinGCInterval = time.Minute
)

// runtimeMinHeap is the heap size below which the runtime does not collect if the pace is 100
// percent. The size is proportional to the pace.
const runtimeMinHeap = 4 << 20

// PaceGC adapts the garbage collector's pace to the live heap size after each collection. memory is
// how many bytes the process may use. PaceGC does not change a pace that the environment sets
// (GOGC). All calls except the first do nothing.
func PaceGC(memory int64) {
	paceOnce.Do(func() {
		if os.Getenv("GOGC") != "" {
			return
		}
		if memory >= minMemoryForHeapFloor {
			globalGCPacer.floor = gcHeapFloor
		}
		afterEachGC(func() { globalGCPacer.adaptPace(readHeap(), time.Now()) })
		globalGCPacer.adaptPace(readHeap(), time.Now())
		globalGCPacer.adaptive.Store(true)
	})
}

var paceOnce sync.Once

var globalGCPacer = gcPacer{
	pace: defaultGCPercent, targetPace: defaultGCPercent,
	setPercent: func(percent int) { debug.SetGCPercent(percent) }, collect: runtime.GC,
}

type gcPacer struct {
	adaptive   atomic.Bool
	floor      uint64 // 0 if there is no floor
	setPercent func(percent int)
	collect    func()

	mu             sync.Mutex
	pace           int // used while no boost is running
	targetPace     int // the last result of paceForHeap
	boosts         int
	lastCollection time.Time
	busy           bool
}

type heapState struct {
	live     uint64
	paceBase uint64 // size of live objects, stacks and globals; the pace is a percentage of this size
}

// nextCollectionHeap returns the heap size at which the next collection starts.
func (h heapState) nextCollectionHeap(pace int) uint64 {
	return max(h.live+h.paceBase*uint64(pace)/100, runtimeMinHeap*uint64(pace)/100)
}

// paceForFloor returns the largest percentage whose goal does not exceed the floor.
func (h heapState) paceForFloor(floor uint64) int {
	if floor <= h.live {
		return 0
	}
	return int(min((floor-h.live)*100/max(h.paceBase, 1), floor*100/runtimeMinHeap))
}

// adaptPace chooses the pace after a collection. While a boost is running, the new pace does not
// take effect yet. Changing the pace briefly stops the process, so adaptPace omits changes that
// would have little effect.
func (p *gcPacer) adaptPace(h heapState, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch since := now.Sub(p.lastCollection); {
	case since < busyMaxGCInterval:
		p.busy = true
	case since > idleMinGCInterval:
		p.busy = false
	}
	p.lastCollection = now
	p.targetPace = paceForHeap(h.live, p.targetPace)
	next := p.targetPace
	if p.busy {
		next = max(next, h.paceForFloor(p.floor))
	}
	if was, will := h.nextCollectionHeap(p.pace), h.nextCollectionHeap(next); will > was-was/8 && will < was+was/8 {
		return
	}
	p.pace = next
	if p.boosts == 0 {
		p.setPercent(next)
	}
}

// beginBoost counts a boost. The first boost lets the heap grow without a collection.
func (p *gcPacer) beginBoost(h heapState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts++; p.boosts == 1 {
		p.setPercent(max(p.pace, int(boostAllocationBytes*100/max(h.paceBase, 1<<20))))
	}
}

// endBoost ends a boost. When the last boost ends, endBoost restores the pace. If the heap exceeds
// the goal of the pace, it first collects the heap. Otherwise the next allocation would have to do
// all the marking, and other goroutines on a single processor would have to wait.
func (p *gcPacer) endBoost(size uint64, h heapState) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts--; p.boosts > 0 {
		return
	}
	if size > h.nextCollectionHeap(p.pace) {
		p.collect()
	}
	p.setPercent(p.pace)
}

func paceForHeap(live uint64, pace int) int {
	switch {
	case live >= tightPaceMinHeapBytes, live >= tightPaceEndHeapBytes && pace == tightGCPercent:
		return tightGCPercent
	case live < loosePaceMaxHeapBytes, live < loosePaceEndHeapBytes && pace == looseGCPercent:
		return looseGCPercent
	}
	return defaultGCPercent
}

func readHeap() heapState {
	live := readMetric("/gc/heap/live:bytes")
	return heapState{live: live, paceBase: live + readMetric("/gc/scan/stack:bytes") + readMetric("/gc/scan/globals:bytes")}
}

// usedHeapBytes returns the memory used by live and uncollected objects, in bytes.
func usedHeapBytes() uint64 { return readMetric("/memory/classes/heap/objects:bytes") }

// CollectionCount returns how many times the heap has been collected.
func CollectionCount() uint64 { return readMetric("/gc/cycles/total:gc-cycles") }

func readMetric(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// afterEachGC calls f after each collection. It uses the finalizer of an unreferenced object, which
// creates the next such object. f runs on the runtime's finalizer goroutine.
func afterEachGC(f func()) {
	type mark struct{ _ [16]byte } // large enough not to share memory with other objects
	var again func(*mark)
	again = func(m *mark) {
		f()
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(new(mark), again)
}
