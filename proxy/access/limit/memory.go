package limit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// MemoryBudget limits how many bytes request bodies or engine responses may use. Its methods may be
// called by multiple goroutines.
//
// A released buffer may occupy memory until the next garbage collection, and the collector lets
// garbage grow to the size of the live heap. Large buffers are therefore released with
// ReleaseGarbage, and count as used until the next collection. If Reserve needs their memory, it
// runs a collection. If the garbage amounts to at least 1/16 of the limit, Reserve collects
// immediately; otherwise, at most once a second.
type MemoryBudget struct {
	limit          atomic.Int64
	used           atomic.Int64 // reserved bytes, including garbage
	garbage        atomic.Int64
	collectMu      sync.Mutex
	lastCollection time.Time // end of the last collection; guarded by collectMu
	collect        func()
}

// NewMemoryBudget returns a MemoryBudget with the given limit in bytes.
func NewMemoryBudget(limit int64) *MemoryBudget {
	m := &MemoryBudget{collect: runtime.GC}
	m.SetLimit(limit)
	return m
}

// SetLimit changes the limit. Bytes that are already reserved stay reserved, even if they exceed
// the new limit.
func (m *MemoryBudget) SetLimit(limit int64) { m.limit.Store(limit) }

// Reserve reserves n bytes. If that would exceed the limit, it returns false. The caller must
// return the bytes with Release or ReleaseGarbage.
func (m *MemoryBudget) Reserve(n int64) bool {
	return m.tryReserve(n) || m.garbage.Load() > 0 && m.collectGarbageFor(n) && m.tryReserve(n)
}

const (
	// largeGarbageDivisor divides the limit. If the garbage reaches this part of the limit (1/16), it
	// is collected immediately.
	largeGarbageDivisor = 16
	// collectInterval is the minimum time between collections if there is less garbage than that. It
	// prevents a nearly full budget from causing a collection for every buffer.
	collectInterval = time.Second
)

func (m *MemoryBudget) tryReserve(n int64) bool {
	for {
		used := m.used.Load()
		if n > m.limit.Load()-used {
			return false
		}
		if m.used.CompareAndSwap(used, used+n) {
			return true
		}
	}
}

// collectGarbageFor collects garbage if that can make room for n bytes. Only one goroutine collects
// at a time.
func (m *MemoryBudget) collectGarbageFor(n int64) bool {
	m.collectMu.Lock()
	defer m.collectMu.Unlock()
	room := m.limit.Load() - m.used.Load()
	if n <= room { // another goroutine has collected garbage in the meantime
		return true
	}
	garbage := m.garbage.Load()
	if n > room+garbage || garbage < m.limit.Load()/largeGarbageDivisor && time.Since(m.lastCollection) < collectInterval {
		return false
	}
	garbage = m.garbage.Swap(0) // buffers discarded from now on may survive this collection
	m.collect()
	m.lastCollection = time.Now()
	m.release(garbage)
	return true
}

// Release returns n bytes.
func (m *MemoryBudget) Release(n int64) { m.release(n) }

// ReleaseGarbage returns n bytes whose buffers are garbage until the next collection.
func (m *MemoryBudget) ReleaseGarbage(n int64) { m.garbage.Add(n) }

func (m *MemoryBudget) release(n int64) {
	if m.used.Add(-n) < 0 {
		panic("BUG: more memory released than was reserved")
	}
}

// UsedBytes returns how many bytes are reserved, excluding garbage.
func (m *MemoryBudget) UsedBytes() int64 {
	garbage := m.garbage.Load() // read first, because a collection subtracts garbage from both
	return max(m.used.Load()-garbage, 0)
}

// Limit returns the limit in bytes.
func (m *MemoryBudget) Limit() int64 { return m.limit.Load() }
