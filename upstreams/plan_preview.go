package upstreams

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Limits returns the slots that an upstream of the plan will have once it is committed, as far as
// that is known now: an engine's report will replace them, unless the configuration sets them. It
// returns the zero Limits for an upstream that the plan leaves out.
func (p *Plan) Limits(u *Upstream) Limits {
	i, ok := p.index[u]
	if !ok {
		return Limits{}
	}
	st, profile := p.items[i].settings, u.engine.Load()
	if now := u.settings.Load(); now.spec.Engine != st.spec.Engine {
		profile = p.profiles.Assumed(st.spec.Engine)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return limitsOf(st.spec.Concurrency, u.reportedSlots, profile)
}

// Has reports whether the plan keeps or adds the upstream of an identity.
func (p *Plan) Has(id ID) bool {
	return slices.ContainsFunc(p.items, func(item planned) bool { return item.up.id == id })
}

// Added reports whether the plan brings the upstream in.
func (p *Plan) Added(u *Upstream) bool {
	i, ok := p.index[u]
	return ok && p.items[i].added
}

// Probe probes the upstreams that the plan adds, once and all at the same time, before anything is
// committed. It returns when every probe has its verdict, which UnavailableReason returns, or when
// ctx has ended.
func (p *Plan) Probe(ctx context.Context, ups []*Upstream) {
	var all sync.WaitGroup
	for _, u := range ups {
		if !p.Added(u) {
			continue
		}
		all.Go(func() {
			defer p.set.o.Guard.Catch(guardProbe, nil)
			st := u.settings.Load()
			transport, err := st.transport.probeTransport(u.hosts)
			if err != nil {
				bug("probe transport: " + err.Error())
				return
			}
			defer transport.Close()
			probe := newProber(u, transport.Pages(), transport.CloseIdle)
			probe.engine = st.spec.Engine
			probe.tick(ctx)
		})
	}
	all.Wait()
}

// UnavailableReason says for the operator why this upstream will not serve a name in the near
// future. It is empty when the upstream will, or when that is not known yet. An open breaker is no
// reason: it closes by itself.
func (u *Upstream) UnavailableReason(served string) string {
	switch State(u.state.Load()) {
	case StateDown:
		return fmt.Sprintf("upstream %s is down: %s", u.label, u.lastFailure())
	case StatePending:
		return fmt.Sprintf("upstream %s has not answered a probe yet", u.label)
	case StateUp, StateRetiring:
	}
	if !u.Serves(served) {
		return fmt.Sprintf("upstream %s: %s", u.label, u.notServedReason(served))
	}
	return ""
}
