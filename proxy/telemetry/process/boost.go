package process

import (
	"os"
	"runtime"
	"sync"
)

// Boost keeps work that computes and allocates much, such as reading a configuration, from delaying
// requests. Until the caller calls done (once), the process has one more processor (GOMAXPROCS).
// With PaceGC the work may also allocate some tens of MiB without a collection, because each
// collection would mark all of the unfinished work. The memory limit (GOMEMLIMIT) still applies.
// done collects the work's garbage, which takes milliseconds. Boosts from several goroutines may
// overlap.
//
// Go runs a goroutine for up to 10 ms. If that goroutine has the only processor, or if the other
// processors wait for a core, nobody polls the network in that time, and each step of each request
// is delayed. With one more processor the kernel divides the core into finer slices, and prefers
// threads that need little time.
func Boost() (done func()) {
	spareProcessor.acquire()
	if !gcPace.adaptive.Load() {
		return spareProcessor.release
	}
	gcPace.beginBoost(readHeap())
	return func() {
		spareProcessor.release() // first, because the collector uses a fraction of the processors
		gcPace.endBoost(usedHeap(), readHeap())
	}
}

// spareProcessor is the processor that boosts add to the processors of the process.
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

// release restores GOMAXPROCS from the environment, or lets the runtime choose. The runtime follows
// the limits of a container until the program sets GOMAXPROCS.
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
