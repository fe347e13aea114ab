package body

import (
	"sync"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	pooledBody = 64 << 10
	largeBody  = 2 << 20
	firstChunk = 4 << 10   // first reservation for a body of unknown size
	firstPart  = 256 << 10 // first reservation for a body of known size
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, firstChunk); return &b }}
	largePool = sync.Pool{New: func() any { return new([]byte) }}
)

func newBuffer(n int64) *[]byte {
	pool := &smallPool
	if n > pooledBody && n <= largeBody {
		pool = &largePool
	}
	buf := pool.Get().(*[]byte)
	if n > int64(cap(*buf)) {
		*buf = make([]byte, 0, n)
	}
	return buf
}

// recycle returns a buffer to its pool, unless the buffer is larger than largeBody.
func recycle(buf *[]byte) {
	*buf = (*buf)[:0]
	switch n := cap(*buf); {
	case n <= pooledBody:
		smallPool.Put(buf)
	case n <= largeBody:
		largePool.Put(buf)
	}
}

// Reservation is the memory that one body has reserved from the budget for all bodies. While the
// body is incomplete, its bytes count against the key. A Reservation belongs to one goroutine at a
// time.
type Reservation struct {
	budget *limit.Memory
	held   int64

	reading *atomic.Int64 // bytes in the key's incomplete bodies; nil if they are not counted
	counted int64         // bytes that this body has added to reading
}

// NewReservation returns an empty Reservation. reading counts the bytes in the key's incomplete
// bodies, and may be nil.
func NewReservation(budget *limit.Memory, reading *atomic.Int64) Reservation {
	return Reservation{budget: budget, reading: reading}
}

// readingShare limits the incomplete bodies of one key to 1/2 of the budget, so that they do not
// block other keys. A single body may exceed this limit.
const readingShare = 2

// Reserve reserves n bytes. If it returns false, it has reserved nothing.
func (r *Reservation) Reserve(n int64) bool {
	if r.reading != nil {
		sum := r.reading.Add(n)
		r.counted += n
		if sum > r.counted && sum > r.budget.Limit()/readingShare {
			r.uncount(n)
			return false
		}
	}
	if !r.budget.Reserve(n) {
		r.uncount(n)
		return false
	}
	r.held += n
	return true
}

// grow returns a copy of buf with twice the capacity. If no memory is left, it returns buf and
// false.
func (r *Reservation) grow(buf []byte) ([]byte, bool) {
	n := int64(cap(buf))
	if !r.Reserve(n) {
		return buf, false
	}
	return append(make([]byte, 0, 2*n), buf...), true
}

// Complete must be called when the whole body has arrived. For a WebSocket message, it must be
// called when the call for the message starts. The bytes stay reserved but no longer count against
// the key.
func (r *Reservation) Complete() {
	r.uncount(r.counted)
	r.reading = nil
}

func (r *Reservation) uncount(n int64) {
	if r.reading != nil {
		r.reading.Add(-n)
		r.counted -= n
	}
}

// Held returns how many bytes are reserved.
func (r *Reservation) Held() int64 { return r.held }

func (r *Reservation) release(n int64) {
	r.budget.Release(n)
	r.held -= n
}

// giveBack recycles buffers and releases their n reserved bytes. If a buffer is too large for its
// pool, its bytes count as garbage until the next garbage collection.
func (r *Reservation) giveBack(n int64, buffers ...**[]byte) {
	huge := false
	for _, buf := range buffers {
		if *buf != nil {
			huge = huge || cap(**buf) > largeBody
			recycle(*buf)
			*buf = nil
		}
	}
	if huge {
		r.Discard(n)
	} else {
		r.release(n)
	}
}

// Discard releases n bytes that are garbage until the next garbage collection.
func (r *Reservation) Discard(n int64) {
	r.uncount(min(n, r.counted))
	r.budget.Discard(n)
	r.held -= n
}
