package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// generation is what a snapshot is known by: its number, when it took effect, and the calls that began with it and have not
// ended. A reload whose keys count before its routes shares the generation that runs.
type generation struct {
	Version uint64
	since   time.Time
	calls   atomic.Int64
}

// generations are the running one and those that still have calls.
type generations struct {
	mu  sync.Mutex
	all []*generation
}

func (g *generations) add(n *generation) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, n)
}

// inUse returns the running generation, which is last, and the older ones that still have calls.
func (g *generations) inUse() []*generation {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := g.all[len(g.all)-1]
	g.all = slices.DeleteFunc(g.all, func(n *generation) bool { return n != newest && n.calls.Load() == 0 })
	return slices.Clone(g.all)
}
