package body

import (
	"sync"

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
}

// reserve takes n more bytes.
func (r *reservation) reserve(n int64) bool {
	if !r.budget.Reserve(n) {
		return false
	}
	r.held += n
	return true
}

// release gives n bytes back.
func (r *reservation) release(n int64) {
	r.budget.Release(n)
	r.held -= n
}
