package body

import (
	"sync"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	maxSmallBuffer     = 64 << 10
	maxPooledBuffer    = 2 << 20
	unknownSizeReserve = 4 << 10   // first reservation for a body of unknown size
	knownSizeReserve   = 256 << 10 // first reservation for a body of known size
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, unknownSizeReserve); return &b }}
	largePool = sync.Pool{New: func() any { return new([]byte) }}
)

func newBuffer(n int64) *[]byte {
	pool := &smallPool
	if n > maxSmallBuffer && n <= maxPooledBuffer {
		pool = &largePool
	}
	buf := pool.Get().(*[]byte)
	if n > int64(cap(*buf)) {
		*buf = make([]byte, 0, n)
	}
	return buf
}

func recycleBuffer(buf *[]byte) {
	*buf = (*buf)[:0]
	switch n := cap(*buf); {
	case n <= maxSmallBuffer:
		smallPool.Put(buf)
	case n <= maxPooledBuffer:
		largePool.Put(buf)
	}
}

// Reservation is the memory that one body has reserved from the budget for all bodies. While the
// body is incomplete, its bytes count against the key. Only one goroutine at a time may use a
// Reservation.
type Reservation struct {
	budget   *limit.MemoryBudget
	reserved int64

	keyIncomplete *atomic.Int64 // bytes in the key's incomplete bodies; nil if they are not counted
	keyCounted    int64         // bytes that this body has added to keyIncomplete
}

// NewReservation returns an empty Reservation. reading counts the bytes in the key's incomplete
// bodies, and may be nil.
func NewReservation(budget *limit.MemoryBudget, reading *atomic.Int64) Reservation {
	return Reservation{budget: budget, keyIncomplete: reading}
}

// keyShareDivisor limits the incomplete bodies of one key to 1/2 of the budget, so that they do not
// block other keys. A single body may exceed this limit.
const keyShareDivisor = 2

// Reserve reserves n bytes. If it returns false, it has reserved nothing.
func (r *Reservation) Reserve(n int64) bool {
	if r.keyIncomplete != nil {
		sum := r.keyIncomplete.Add(n)
		r.keyCounted += n
		if sum > r.keyCounted && sum > r.budget.Limit()/keyShareDivisor {
			r.uncountKeyBytes(n)
			return false
		}
	}
	if !r.budget.Reserve(n) {
		r.uncountKeyBytes(n)
		return false
	}
	r.reserved += n
	return true
}

// growBuffer returns a copy of buf with twice the capacity. If no memory is left, it returns buf
// and false.
func (r *Reservation) growBuffer(buf []byte) ([]byte, bool) {
	n := int64(cap(buf))
	if !r.Reserve(n) {
		return buf, false
	}
	return append(make([]byte, 0, 2*n), buf...), true
}

// MarkBodyComplete stops counting the bytes against the key, but they stay reserved. It must be
// called when the whole body has arrived. For a WebSocket message, it must be called when the call
// for the message starts.
func (r *Reservation) MarkBodyComplete() {
	r.uncountKeyBytes(r.keyCounted)
	r.keyIncomplete = nil
}

func (r *Reservation) uncountKeyBytes(n int64) {
	if r.keyIncomplete != nil {
		r.keyIncomplete.Add(-n)
		r.keyCounted -= n
	}
}

// ReservedBytes returns how many bytes are reserved.
func (r *Reservation) ReservedBytes() int64 { return r.reserved }

func (r *Reservation) release(n int64) {
	r.budget.Release(n)
	r.reserved -= n
}

// recycleBuffers recycles buffers and releases their n reserved bytes. If a buffer is too large for
// its pool, its bytes count as garbage until the next garbage collection.
func (r *Reservation) recycleBuffers(n int64, buffers ...**[]byte) {
	huge := false
	for _, buf := range buffers {
		if *buf != nil {
			huge = huge || cap(**buf) > maxPooledBuffer
			recycleBuffer(*buf)
			*buf = nil
		}
	}
	if huge {
		r.ReleaseGarbage(n)
	} else {
		r.release(n)
	}
}

// ReleaseGarbage releases n bytes that stay in memory as garbage until the next garbage collection.
func (r *Reservation) ReleaseGarbage(n int64) {
	r.uncountKeyBytes(min(n, r.keyCounted))
	r.budget.ReleaseGarbage(n)
	r.reserved -= n
}
