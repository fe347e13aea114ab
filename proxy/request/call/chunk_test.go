package call

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"penstock/proxy/request/attempt"
)

// TestKeepUnsent checks that unsent bytes are copied only if their buffer is small, because a small
// buffer may be reused. A copy of a large buffer would not count against limits.reply_memory.
func TestKeepUnsent(t *testing.T) {
	for size, copied := range map[int]bool{100: true, attempt.MaxPooled: true, attempt.MaxPooled + 1: false, 8 << 20: false} {
		b := make([]byte, size)
		kept := keepUnsent(b[10:], cap(b))
		if b[10] = 'x'; len(kept) != size-10 || (kept[0] == 0) != copied {
			t.Errorf("%d bytes: kept %d, copied: %v, want %v", size, len(kept), !copied, copied)
		}
	}
}

// TestPutChunkSizeLine checks that the size line of a chunk is right-aligned in the space reserved
// for it, for small and large chunks.
func TestPutChunkSizeLine(t *testing.T) {
	sizes := []int{1, 9, 10, 15, 16, 255, 256, 65535, 65536, 1<<31 - 1}
	for range 100 {
		sizes = append(sizes, 1+rand.IntN(1<<31-1))
	}
	for _, n := range sizes {
		var room [chunkPrefixLen]byte
		if got, want := string(room[putChunkSizeLine(room[:], n):]), fmt.Sprintf("%x\r\n", n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
