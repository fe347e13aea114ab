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

// The pace changes at these live heap sizes, in bytes. At the usual pace a tiny heap would be
// collected after every few megabytes of small requests, each time with almost no gain. With a
// large heap, memory matters more than time, because open streams use nearly all of the heap and
// allocate almost nothing. Collections are then rare at any pace, and a lower percentage saves
// memory for each stream.
const (
	tightAbove = 48 << 20
	tightUntil = 32 << 20 // below this size the usual pace is restored
	looseBelow = 4 << 20
	looseUntil = 6 << 20 // from this size on the usual pace is restored

	loosePace = 400 // percent of the live heap that may be allocated until the next collection
	usualPace = 100
	tightPace = 40

	boostRoom = 64 << 20 // bytes that a boost may allocate without a collection
)

// While the process is busy, the collector does not collect a heap below the floor. There is no
// floor if the process may use less than floorFrom in total. A process becomes busy if it has two
// collections within busyBelow. It becomes idle after idleAfter without a collection, and then
// returns the memory of the floor to the system. A busy process collects a few times less often
// than an idle one. So the gap between the two times keeps the process from alternating between the
// two states.
const (
	heapFloor = 64 << 20
	floorFrom = 8 * heapFloor

	busyBelow = 10 * time.Second
	idleAfter = time.Minute
)

// runtimeFloor is the heap size below which the runtime does not collect at a pace of 100 percent.
// The size grows with the percentage.
const runtimeFloor = 4 << 20

// PaceGC adapts the garbage collector's pace to the live heap size after each collection, for as
// long as the process runs. memory is how many bytes the process may use. PaceGC does not change a
// pace that the environment sets (GOGC). Further calls do nothing.
func PaceGC(memory int64) {
	paceOnce.Do(func() {
		if os.Getenv("GOGC") != "" {
			return
		}
		if memory >= floorFrom {
			gcPace.floor = heapFloor
		}
		afterEachGC(func() { gcPace.adapt(readHeap(), time.Now()) })
		gcPace.adapt(readHeap(), time.Now())
		gcPace.adaptive.Store(true)
	})
}

var paceOnce sync.Once

// gcPace is the pace of the process's garbage collector.
var gcPace = pacer{
	pace: usualPace, usual: usualPace,
	set: func(percent int) { debug.SetGCPercent(percent) }, collect: runtime.GC,
}

type pacer struct {
	adaptive atomic.Bool
	floor    uint64 // 0: no floor
	set      func(percent int)
	collect  func()

	mu     sync.Mutex
	pace   int // in force while no boost runs
	usual  int // the last result of paceOf
	boosts int // number of running boosts
	last   time.Time
	busy   bool
}

// heap holds the heap sizes after a collection, in bytes.
type heap struct {
	live    uint64
	counted uint64 // live objects, stacks and globals: the pace is a percentage of them
}

// goal returns the heap size at which the next collection starts.
func (h heap) goal(pace int) uint64 {
	return max(h.live+h.counted*uint64(pace)/100, runtimeFloor*uint64(pace)/100)
}

// paceTo returns the largest percentage whose goal does not exceed the floor.
func (h heap) paceTo(floor uint64) int {
	if floor <= h.live {
		return 0
	}
	return int(min((floor-h.live)*100/max(h.counted, 1), floor*100/runtimeFloor))
}

// adapt chooses the pace after a collection. h is the heap after that collection. The pace takes
// effect once no boost runs. A change stops the process for a moment, so adapt keeps the pace if
// the goal would hardly change.
func (p *pacer) adapt(h heap, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch since := now.Sub(p.last); {
	case since < busyBelow:
		p.busy = true
	case since > idleAfter:
		p.busy = false
	}
	p.last = now
	p.usual = paceOf(h.live, p.usual)
	next := p.usual
	if p.busy {
		next = max(next, h.paceTo(p.floor))
	}
	if was, will := h.goal(p.pace), h.goal(next); will > was-was/8 && will < was+was/8 {
		return
	}
	p.pace = next
	if p.boosts == 0 {
		p.set(next)
	}
}

// beginBoost counts a boost. The first boost lets the heap grow without a collection.
func (p *pacer) beginBoost(h heap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts++; p.boosts == 1 {
		p.set(max(p.pace, int(boostRoom*100/max(h.counted, 1<<20))))
	}
}

// endBoost ends a boost. The last boost to end restores the pace. size is the heap's current size,
// and h is the heap after the last collection. If size exceeds the goal of the pace, endBoost
// collects the heap first. If a collection starts beyond its goal, the next allocation must do all
// of the marking at once. With one processor all other goroutines then wait.
func (p *pacer) endBoost(size uint64, h heap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.boosts--; p.boosts > 0 {
		return
	}
	if size > h.goal(p.pace) {
		p.collect()
	}
	p.set(p.pace)
}

// paceOf returns the pace for a heap of live bytes, given the current pace.
func paceOf(live uint64, pace int) int {
	switch {
	case live >= tightAbove, live >= tightUntil && pace == tightPace:
		return tightPace
	case live < looseBelow, live < looseUntil && pace == loosePace:
		return loosePace
	}
	return usualPace
}

// readHeap returns the heap sizes after the last collection.
func readHeap() heap {
	live := readMetric("/gc/heap/live:bytes")
	return heap{live: live, counted: live + readMetric("/gc/scan/stack:bytes") + readMetric("/gc/scan/globals:bytes")}
}

// usedHeap returns the memory used by live and uncollected objects, in bytes.
func usedHeap() uint64 { return readMetric("/memory/classes/heap/objects:bytes") }

// Collections returns how often the heap has been collected.
func Collections() uint64 { return readMetric("/gc/cycles/total:gc-cycles") }

func readMetric(name string) uint64 {
	sample := [1]metrics.Sample{{Name: name}}
	metrics.Read(sample[:])
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// afterEachGC calls f on the runtime's own goroutine after each collection. Each collection runs
// the finalizer of an unreferenced mark, which then creates the next mark.
func afterEachGC(f func()) {
	type mark struct{ _ [16]byte } // large enough not to share memory with other objects
	var again func(*mark)
	again = func(m *mark) {
		f()
		runtime.SetFinalizer(m, again)
	}
	runtime.SetFinalizer(new(mark), again)
}
