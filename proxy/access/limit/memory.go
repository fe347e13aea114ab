package limit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Memory is the budget of memory, in bytes, that request bodies or engine replies may use at once.
// Its methods may be called from any goroutine.
//
// Released buffers may be garbage that occupies memory until the next collection. The collector
// lets garbage grow to the size of the memory in use. Discard is for large buffers: they count as
// used until the next collection. Reserve starts a collection when it needs their memory. It does
// so at once if they amount to 1/16 of the limit, and otherwise at most once a second.
type Memory struct {
	limit      atomic.Int64
	used       atomic.Int64 // including garbage
	garbage    atomic.Int64
	collecting sync.Mutex // held during a collection
	collected  time.Time  // when the last collection ended; guarded by collecting
	collect    func()
}

// NewMemory returns a budget of limit bytes.
func NewMemory(limit int64) *Memory {
	m := &Memory{collect: runtime.GC}
	m.SetLimit(limit)
	return m
}

// SetLimit changes the budget. Reserved bytes stay reserved, even beyond the new limit.
func (m *Memory) SetLimit(limit int64) { m.limit.Store(limit) }

// Reserve takes n bytes. If fewer are left, it takes nothing and returns false. The sum of reserved
// bytes never exceeds the limit. The bytes must be returned with Release or Discard.
func (m *Memory) Reserve(n int64) bool {
	return m.tryTake(n) || m.garbage.Load() > 0 && m.reclaim(n) && m.tryTake(n)
}

const (
	// largeGarbage is the divisor of the limit from which garbage counts as large (1/16 of the
	// limit). A large amount is collected once its memory is needed.
	largeGarbage = 16
	// collectEvery is how often a smaller amount of garbage is collected. If a budget stays nearly
	// full, the edge must not run a collection for each buffer.
	collectEvery = time.Second
)

func (m *Memory) tryTake(n int64) bool {
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

// reclaim collects garbage if that may make room for n bytes. One caller at a time collects.
func (m *Memory) reclaim(n int64) bool {
	m.collecting.Lock()
	defer m.collecting.Unlock()
	room := m.limit.Load() - m.used.Load()
	if n <= room { // another caller has already collected garbage
		return true
	}
	garbage := m.garbage.Load()
	if n > room+garbage || garbage < m.limit.Load()/largeGarbage && time.Since(m.collected) < collectEvery {
		return false
	}
	garbage = m.garbage.Swap(0) // garbage that is discarded from here on may survive the collection
	m.collect()
	m.collected = time.Now()
	m.release(garbage)
	return true
}

// Release returns n bytes.
func (m *Memory) Release(n int64) { m.release(n) }

// Discard returns n bytes as garbage.
func (m *Memory) Discard(n int64) { m.garbage.Add(n) }

func (m *Memory) release(n int64) {
	if m.used.Add(-n) < 0 {
		panic("BUG: more memory released than was reserved")
	}
}

// Used returns the reserved bytes, without garbage.
func (m *Memory) Used() int64 {
	garbage := m.garbage.Load() // read first, because a collection subtracts garbage from both
	return max(m.used.Load()-garbage, 0)
}

// Limit returns the size of the budget.
func (m *Memory) Limit() int64 { return m.limit.Load() }
