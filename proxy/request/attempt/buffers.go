package attempt

import "sync"

var bufferPool = sync.Pool{New: func() any { b := make([]byte, 0, 2<<10); return &b }}

// MaxPooled is the maximum size of a pooled buffer. Pooled buffers are not charged to the memory
// budget.
const MaxPooled = 64 << 10

// NewBuffer returns an empty buffer for bytes of a reply or an answer.
func NewBuffer() *[]byte { return bufferPool.Get().(*[]byte) }

// Recycle puts a buffer back into its pool, unless it has become large.
func Recycle(buf *[]byte) {
	if cap(*buf) <= MaxPooled {
		*buf = (*buf)[:0]
		bufferPool.Put(buf)
	}
}
