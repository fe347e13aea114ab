package process

import (
	"os"
	"runtime"
	"sync"
)

// Burst is for short work that takes much time and makes much garbage, such as reading a configuration, beside requests that
// shall not notice. Until done is called, which is once, the process has one processor (GOMAXPROCS) more, and where PaceGC
// rules the work may allocate some tens of MiB without a collection: each one within it would mark all that is half done.
// The memory limit (GOMEMLIMIT) holds all the same. done collects what was left behind, which takes milliseconds. Bursts may
// overlap, from any goroutine.
//
// The processor is there because Go lets a goroutine compute for 10 ms, and when it has the only one, or those that there are
// wait for a core, nobody looks at the network for so long, at each step of each request. The kernel divides a core in finer
// pieces and prefers those who ask for little.
func Burst() (done func()) {
	extra.take()
	if !collector.paced.Load() {
		return extra.giveBack
	}
	collector.begin(liveHeap())
	return func() {
		extra.giveBack() // first: the collector takes its share of the processors that there are
		collector.end(usedHeap(), liveHeap())
	}
}

// extra is the processor that bursts have beside the process's own.
var extra processor

type processor struct {
	mu    sync.Mutex
	users int
}

func (p *processor) take() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users++; p.users == 1 {
		runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + 1)
	}
}

// giveBack returns to what the environment says, or to the runtime's own choice, which follows the limits of a container for
// as long as nobody has set a number.
func (p *processor) giveBack() {
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
