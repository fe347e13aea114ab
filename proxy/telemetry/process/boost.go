package process

import (
	"os"
	"runtime"
	"sync"
)

// BoostProcessors prevents work that allocates a lot of memory, such as reading a configuration,
// from delaying requests. Until the caller calls done (exactly once), the process has one more
// processor (GOMAXPROCS). If PaceGC is active, the work may also allocate some tens of MiB without
// a collection. done collects this garbage, which takes milliseconds. Boosts may overlap.
//
// Go runs a goroutine for up to 10 ms. If the goroutine occupies the only processor, no goroutine
// polls the network during this time. With one more processor, the kernel shares the core among
// threads in smaller time slices, and prefers threads that need little time.
func BoostProcessors() (done func()) {
	spareProcessor.acquire()
	if !globalGCPacer.adaptive.Load() {
		return spareProcessor.release
	}
	globalGCPacer.beginBoost(readHeap())
	return func() {
		spareProcessor.release() // before the collection, which uses a share of GOMAXPROCS
		globalGCPacer.endBoost(usedHeapBytes(), readHeap())
	}
}

var spareProcessor processorBoost

type processorBoost struct {
	mu    sync.Mutex
	users int
}

func (p *processorBoost) acquire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// release restores GOMAXPROCS from the environment. Otherwise the runtime chooses it, and adapts it
// to the limits of a container.
func (p *processorBoost) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users > 0 {
		return
	}
	if os.Getenv("GOMAXPROCS") != "" {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) - 1)
		return
	}
	runtime.SetDefaultGOMAXPROCS()
}
