package limit

import "sync/atomic"

// Memory is the budget of bytes that request bodies may hold at one time. Its methods may be called from any goroutine.
type Memory struct {
	limit atomic.Int64
	used  atomic.Int64
}

// NewMemory returns a budget of limit bytes.
func NewMemory(limit int64) *Memory {
	m := new(Memory)
	m.SetLimit(limit)
	return m
}

// SetLimit changes the budget. What is taken stays taken, also where it is more than the new limit.
func (m *Memory) SetLimit(limit int64) { m.limit.Store(limit) }

// Reserve takes n bytes and reports whether there were as many. It never takes a part, and the sum of what is taken never
// grows beyond the limit. What was taken must be given back with Release.
func (m *Memory) Reserve(n int64) bool {
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

// Release gives n bytes back.
func (m *Memory) Release(n int64) {
	if m.used.Add(-n) < 0 {
		panic("BUG: more body memory released than was reserved")
	}
}

// Used returns the bytes that are taken.
func (m *Memory) Used() int64 { return m.used.Load() }

// Limit returns the size of the budget.
func (m *Memory) Limit() int64 { return m.limit.Load() }
