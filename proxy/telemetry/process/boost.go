package process

import (
	"os"
	"runtime"
	"sync"
)

// Boost keeps work that computes and allocates much, such as reading a configuration, from delaying
// requests. Until done is called (once), the process has one more processor (GOMAXPROCS), and with
// PaceGC the work may allocate some tens of MiB without a collection, because each collection would
// mark all of the unfinished work. The memory limit (GOMEMLIMIT) still holds. done collects the
// work's garbage, which takes milliseconds. Boosts may overlap, from any goroutine.
//
// Go lets a goroutine compute for 10 ms. While it has the only processor, or the others wait for a
// core, no goroutine polls the network for that time, at each step of each request. With one more
// processor the kernel divides the core in finer pieces and prefers threads that need little time.
func Boost() (done func()) {
	spareProcessor.acquire()
	if !gcPace.adaptive.Load() {
		return spareProcessor.release
	}
	gcPace.beginBoost(readHeap())
	return func() {
		spareProcessor.release() // first: the collector uses a share of the processors
		gcPace.endBoost(usedHeap(), readHeap())
	}
}

// spareProcessor is the processor that boosts add to the process's own.
var spareProcessor processorBoost

// processorBoost adds one processor while it has users.
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

// release returns to the number of the environment, or to the runtime's own choice. The runtime
// follows the limits of a container until the program sets a number.
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
