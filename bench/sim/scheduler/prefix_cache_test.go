package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPrefixCacheForgetsTheLeastRecentlyUsed checks that the cache has the same contents as a
// simple list-based implementation.
func TestPrefixCacheForgetsTheLeastRecentlyUsed(t *testing.T) {
	const room = 40
	c := NewPrefixCache(room * BlockTokens)
	var list []uint64 // newest block first
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var blocks []uint64
		first := uint64(r.IntN(12)) * 100
		for i := range r.IntN(9) + 1 {
			blocks = append(blocks, first+uint64(i))
		}
		want := 0
		for want < len(blocks) && slices.Contains(list, blocks[want]) {
			want++
		}
		if got := c.Lookup(blocks, 1<<20) / BlockTokens; got != want {
			t.Fatalf("%d blocks cached, want %d", got, want)
		}
		c.Insert(blocks)
		for i := len(blocks) - 1; i >= 0; i-- {
			list = slices.DeleteFunc(list, func(b uint64) bool { return b == blocks[i] })
			list = slices.Insert(list, 0, blocks[i])
		}
		list = list[:min(len(list), room)]
		if len(c.indexByBlock) != len(list) || len(c.entries) > room+1 {
			t.Fatalf("%d blocks are kept in %d places, want %d", len(c.indexByBlock), len(c.entries), len(list))
		}
	}
	c.Clear()
	if n := c.Lookup([]uint64{1}, 100); n != 0 {
		t.Errorf("%d tokens cached after clear", n)
	}
}
