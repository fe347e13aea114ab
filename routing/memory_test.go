package routing

import (
	"runtime"
	"testing"

	"penstock/config"
)

// bytesABlock is the maximum memory in bytes that the index may use per engine and cached block.
// The section "Sizing" in the README of package proxy uses the same number.
const bytesABlock = 128

// TestPrefixIndexMemory checks that the index uses no more memory than documented, both when it is
// full and while new blocks replace old blocks.
func TestPrefixIndexMemory(t *testing.T) {
	const most = 4 * maxCacheBlocks * bytesABlock
	for name, own := range map[string]bool{"each has its own": true, "all have the same": false} {
		r := routeOver(t, config.PolicyLeastLoaded, 8, 8, 8, 8)
		before := heapInUse()
		for i := range r.targets {
			r.targets[i].Upstream.Cache.SetCapacity(1e9)
			for n := range 2 * maxCacheBlocks / 512 {
				blocks := make([]uint64, 512)
				for k := range blocks {
					id := uint64(n*512 + k + 1)
					if own {
						id += uint64(i) << 32
					}
					blocks[k] = splitmix64(id)
				}
				r.prefixIndex.recordPrompt(blocks, &r.targets[i], 1)
			}
		}
		got := heapInUse() - before
		held := r.prefixIndex.memberCaches[0].blocks
		if held != maxCacheBlocks {
			t.Fatalf("%s: an engine is believed to hold %d blocks", name, held)
		}
		t.Logf("%s: %d bytes, at most %d", name, got, most)
		if got > most {
			t.Errorf("%s: %d bytes, want at most %d", name, got, most)
		}
		runtime.KeepAlive(r)
	}
}

func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
