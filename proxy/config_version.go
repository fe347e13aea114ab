package proxy

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// configVersion identifies a snapshot: its number, when it took effect, and how many calls began
// with it and have not ended. A reload whose keys take effect before its routes shares the running
// version.
type configVersion struct {
	Version uint64
	since   time.Time
	calls   atomic.Int64
}

// configVersions are the running version and the older ones that still have calls.
type configVersions struct {
	mu  sync.Mutex
	all []*configVersion
}

func (g *configVersions) add(n *configVersion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, n)
}

// inUse returns the running version, which is last, and the older ones that still have calls.
func (g *configVersions) inUse() []*configVersion {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := g.all[len(g.all)-1]
	g.all = slices.DeleteFunc(g.all, func(n *configVersion) bool { return n != newest && n.calls.Load() == 0 })
	return slices.Clone(g.all)
}
