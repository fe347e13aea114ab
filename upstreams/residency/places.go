package residency

import (
	"sync"
	"sync/atomic"
)

// Places holds an upstream's gate, if it has one. The gate has as many places as configured, or as
// the engine reports if those are fewer. Its methods may be called from any goroutine.
type Places struct {
	gate atomic.Pointer[Gate] // nil: calls of all models are sent at once

	mu               sync.Mutex
	configured, told int // 0: none
}

// Gate returns the gate, or nil if there is none.
func (p *Places) Gate() *Gate { return p.gate.Load() }

// Configure sets the number of models that the configuration lets the engine keep; 0: no turns. It
// reports whether that changes the gate.
func (p *Places) Configure(n int) (changed bool) { return p.renew(&p.configured, n) }

// Tell sets the number of models that the engine reports that it keeps, or 0 if it reports none. It
// reports whether that changes the gate.
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
