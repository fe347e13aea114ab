package residency

import (
	"sync"
	"sync/atomic"
)

// Places contains an upstream's gate, if it has one. The gate has the configured number of places,
// or the reported number if that is smaller. It is safe for concurrent use.
type Places struct {
	gate atomic.Pointer[Gate] // nil if there are no turns

	mu               sync.Mutex
	configured, told int // 0 if there is no such number
}

// Gate returns the gate, or nil if there is none.
func (p *Places) Gate() *Gate { return p.gate.Load() }

// Configure sets the configured number of places. If n is 0, there are no turns. It reports whether
// the gate changed.
func (p *Places) Configure(n int) (changed bool) { return p.renew(&p.configured, n) }

// Tell sets the number of places that the engine reports. n is 0 if it reports none. It reports
// whether the gate changed.
func (p *Places) Tell(n int) (changed bool) { return p.renew(&p.told, n) }

func (p *Places) renew(which *int, n int) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *which == n {
		return false
	}
	*which = n
	g := p.gate.Load()
	if n = p.configured; p.told > 0 {
		n = min(n, p.told)
	}
	switch {
	case n <= 0:
		p.gate.Store(nil)
	case g == nil:
		p.gate.Store(New(n))
	default:
		g.SetPlaces(n)
	}
	return true
}
