package body

import (
	"sync"
	"sync/atomic"

	"penstock/proxy/access/limit"
)

const (
	pooledBody = 64 << 10  // buffers up to this size are pooled
	largeBody  = 2 << 20   // larger buffers, up to this size, have a pool of their own
	firstChunk = 4 << 10   // initial reservation of a chunked body, whose size is unknown
	firstPart  = 256 << 10 // initial reservation of a body of known size
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, firstChunk); return &b }}
	largePool = sync.Pool{New: func() any { return new([]byte) }}
)

// newBuffer returns an empty buffer with room for n bytes. recycle returns the buffer to its pool.
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

// recycle returns a buffer to its pool, unless the buffer is huge.
func recycle(buf *[]byte) {
	*buf = (*buf)[:0]
	switch n := cap(*buf); {
	case n <= pooledBody:
		smallPool.Put(buf)
	case n <= largeBody:
		largePool.Put(buf)
	}
}

// Reservation is the share of the budget for all bodies that one body holds. While the body is
// incomplete, the share also counts against the client's key. A Reservation belongs to one
// goroutine at a time.
type Reservation struct {
	budget *limit.Memory
	held   int64

	reading *atomic.Int64 // bytes held by the key's incomplete bodies; nil: not counted
	counted int64         // bytes that this body has added to reading
}

// NewReservation returns an empty reservation from a budget. reading, unless nil, counts the bytes
// of the key's incomplete bodies.
func NewReservation(budget *limit.Memory, reading *atomic.Int64) Reservation {
	return Reservation{budget: budget, reading: reading}
}

// readingShare limits the incomplete bodies of one key together to 1/2 of the budget, so that a
// client that leaves its bodies unfinished does not lock out others. A single body may hold more.
const readingShare = 2

// Reserve reserves n more bytes. If there is no room, it reserves none and returns false.
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

// grow returns a copy of buf, which is full, with twice the capacity. If there is no memory, grow
// returns buf itself and false.
func (r *Reservation) grow(buf []byte) ([]byte, bool) {
	n := int64(cap(buf))
	if !r.Reserve(n) {
		return buf, false
	}
	return append(make([]byte, 0, 2*n), buf...), true
}

// Complete must be called when the whole body has arrived or, for a WebSocket message, when the
// call starts. The bytes stay reserved, but no longer count against the key.
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

// release releases n bytes.
func (r *Reservation) release(n int64) {
	r.budget.Release(n)
	r.held -= n
}

// giveBack recycles buffers and releases the n bytes that are reserved for them. Huge buffers,
// which no pool keeps, count as garbage.
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

// Discard releases n bytes as garbage.
func (r *Reservation) Discard(n int64) {
	r.uncount(min(n, r.counted))
	r.budget.Discard(n)
	r.held -= n
}
