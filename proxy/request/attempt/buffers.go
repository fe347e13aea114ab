package attempt

import "sync"

var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// MaxPooled is the maximum size of a pooled buffer. Pooled buffers do not count against the memory
// budget.
const MaxPooled = 64 << 10

// NewBuffer returns an empty buffer from the pool.
func NewBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

// RecycleBuffer returns a buffer to the pool, unless it is larger than MaxPooled.
func RecycleBuffer(buf *[]byte) {
	if cap(*buf) <= MaxPooled {
		*buf = (*buf)[:0]
		bufferPool.Put(buf)
	}
}
