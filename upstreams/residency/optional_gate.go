package residency

import (
	"sync"
	"sync/atomic"
)

// OptionalGate contains an upstream's Gate, if the upstream's models take turns. The gate has the
// configured number of places, or the reported number if that is smaller. An OptionalGate is safe
// for concurrent use.
type OptionalGate struct {
	gate atomic.Pointer[Gate] // nil if there are no turns

	mu                   sync.Mutex
	configured, reported int // 0 if the number is not configured or not reported
}

// Gate returns the gate, or nil if there are no turns.
func (p *OptionalGate) Gate() *Gate { return p.gate.Load() }

// SetConfiguredCapacity sets the configured number of places. If n is 0, there are no turns. It
// reports whether the gate changed.
func (p *OptionalGate) SetConfiguredCapacity(n int) (changed bool) {
	return p.rebuildGate(&p.configured, n)
}

// SetReportedCapacity sets the number of places that the engine reports. n is 0 if the engine
// reports no number. It reports whether the gate changed.
func (p *OptionalGate) SetReportedCapacity(n int) (changed bool) {
	return p.rebuildGate(&p.reported, n)
}

func (p *OptionalGate) rebuildGate(which *int, n int) (changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *which == n {
		return false
	}
	*which = n
	g := p.gate.Load()
	if n = p.configured; p.reported > 0 {
		n = min(n, p.reported)
	}
	switch {
	case n <= 0:
		p.gate.Store(nil)
	case g == nil:
		p.gate.Store(New(n))
	default:
		g.SetCapacity(n)
	}
	return true
}
