package limit

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Memory is the budget of bytes that request bodies, or engines' replies, may hold at one time. Its methods may be called from
// any goroutine.
//
// What is given back may be garbage that still occupies memory until the collector has run, and the collector by itself lets as
// much lie as there is in use. Discard is for large pieces: they count until a collection, which Reserve starts once they stand in
// its way.
type Memory struct {
	limit   atomic.Int64
	used    atomic.Int64 // garbage included
	garbage atomic.Int64
	sweep   sync.Mutex // held by the one that collects
	collect func()
}

// NewMemory returns a budget of limit bytes.
func NewMemory(limit int64) *Memory {
	m := &Memory{collect: runtime.GC}
	m.SetLimit(limit)
	return m
}

// SetLimit changes the budget. What is taken stays taken, also where it is more than the new limit.
func (m *Memory) SetLimit(limit int64) { m.limit.Store(limit) }

// Reserve takes n bytes and reports whether there were as many. It never takes a part, and the sum of what is taken never
// grows beyond the limit. What was taken must be given back with Release or Discard.
func (m *Memory) Reserve(n int64) bool {
	return m.take(n) || m.garbage.Load() >= m.limit.Load()/leastGarbage && m.reclaim(n) && m.take(n)
}

// leastGarbage is the part of the limit that garbage must be for a collection to be worth its time.
const leastGarbage = 16

func (m *Memory) take(n int64) bool {
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

// reclaim collects garbage, one caller at a time, if that may make room for n bytes.
func (m *Memory) reclaim(n int64) bool {
	m.sweep.Lock()
	defer m.sweep.Unlock()
	room := m.limit.Load() - m.used.Load()
	if n <= room { // another one has collected
		return true
	}
	if n > room+m.garbage.Load() {
		return false
	}
	garbage := m.garbage.Swap(0) // what comes from here on may be missed
	m.collect()
	m.release(garbage)
	return true
}

// Release gives n bytes back.
func (m *Memory) Release(n int64) { m.release(n) }

// Discard gives n bytes back that are garbage.
func (m *Memory) Discard(n int64) { m.garbage.Add(n) }

func (m *Memory) release(n int64) {
	if m.used.Add(-n) < 0 {
		panic("BUG: more memory released than was reserved")
	}
}

// Used returns the bytes that are taken, without garbage.
func (m *Memory) Used() int64 {
	garbage := m.garbage.Load() // first: a collection takes it from both
	return max(m.used.Load()-garbage, 0)
}

// Limit returns the size of the budget.
func (m *Memory) Limit() int64 { return m.limit.Load() }
