package call

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// TestSizeLine checks that the size line is right-aligned in the space reserved for it, for small
// and large chunks.
func TestSizeLine(t *testing.T) {
	sizes := []int{1, 9, 10, 15, 16, 255, 256, 65535, 65536, 1<<31 - 1}
	for range 100 {
		sizes = append(sizes, 1+rand.IntN(1<<31-1))
	}
	for _, n := range sizes {
		var room [chunkRoom]byte
		if got, want := string(room[sizeLine(room[:], n):]), fmt.Sprintf("%x\r\n", n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
}
