package body

import (
	"sync"
	"sync/atomic"

	"penstock/proxy/limit"
)

const (
	pooledBody = 64 << 10 // buffers up to this size are kept for the next request
	largeBody  = 2 << 20  // and larger ones up to this in a pool of their own
	firstChunk = 4 << 10  // what a chunked body reserves before its size is known
)

var (
	smallPool = sync.Pool{New: func() any { b := make([]byte, 0, firstChunk); return &b }}
	largePool = sync.Pool{New: func() any { return new([]byte) }}
)

// newBuffer returns an empty buffer with room for n bytes; recycle takes it back.
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

// recycle gives a buffer back to its pool, or lets a huge one go.
func recycle(buf *[]byte) {
	*buf = (*buf)[:0]
	switch n := cap(*buf); {
	case n <= pooledBody:
		smallPool.Put(buf)
	case n <= largeBody:
		largePool.Put(buf)
	}
}

// reservation is what one body holds of the budget for all bodies.
type reservation struct {
	budget *limit.Memory
	held   int64

	reading *atomic.Int64 // what bodies of its key hold that are still read; nil: nobody counts
	counted int64         // of that, for this one
}

// readingShare is the part of the budget that bodies of one key may hold while they are read, 1/2:
// a client that leaves its bodies unfinished keeps no others out. A single body may have more.
const readingShare = 2

// reserve takes n more bytes.
func (r *reservation) reserve(n int64) bool {
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

// read is called when all of the body is there.
func (r *reservation) read() {
	r.uncount(r.counted)
	r.reading = nil
}

func (r *reservation) uncount(n int64) {
	if r.reading != nil {
		r.reading.Add(-n)
		r.counted -= n
	}
}

// release gives n bytes back.
func (r *reservation) release(n int64) {
	r.budget.Release(n)
	r.held -= n
}
