package reload

import (
	"slices"
	"sync"

	"penstock/proxy/snapshot"
)

// versions are the running version and the older ones that still have calls.
type versions struct {
	mu  sync.Mutex
	all []*snapshot.ConfigVersion
}

func (g *versions) add(n *snapshot.ConfigVersion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, n)
}

// inUse returns the running version, which is last, and the older ones that still have calls.
func (g *versions) inUse() []*snapshot.ConfigVersion {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := g.all[len(g.all)-1]
	g.all = slices.DeleteFunc(g.all, func(n *snapshot.ConfigVersion) bool { return n != newest && n.Calls() == 0 })
	return slices.Clone(g.all)
}
