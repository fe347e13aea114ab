package reload

import (
	"slices"
	"sync"
	"sync/atomic"

	"penstock/config"
	"penstock/proxy/running/snapshot"
)

// configVersions contains the running version and the older versions that still have running calls.
type configVersions struct {
	mu  sync.Mutex
	all []*snapshot.ConfigVersion

	// previous is the configuration that was replaced by the running configuration. It is nil if no
	// configuration has been replaced, or if an operator has just restored the previous one.
	previous atomic.Pointer[config.File]
}

// previousConfig returns the previous configuration with the running keys, so that revoked keys
// stay revoked.
func (g *configVersions) previousConfig(running *config.File) (*config.File, config.Problems) {
	before := g.previous.Load()
	if before == nil {
		return nil, config.Problems{{Message: "there is no configuration to go back to: " +
			"none has been replaced since the start or the last --back"}}
	}
	return before.WithAccessSettings(running), nil
}

func (g *configVersions) add(n *snapshot.ConfigVersion) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all = append(g.all, n)
}

// inUse returns the older versions that still have running calls, followed by the running version.
func (g *configVersions) inUse() []*snapshot.ConfigVersion {
	g.mu.Lock()
	defer g.mu.Unlock()
	newest := g.all[len(g.all)-1]
	g.all = slices.DeleteFunc(g.all, func(n *snapshot.ConfigVersion) bool { return n != newest && n.Calls() == 0 })
	return slices.Clone(g.all)
}
