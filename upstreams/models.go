package upstreams

import (
	"slices"
	"sync/atomic"

	"penstock/upstreams/engine"

	"go.uber.org/zap"
)

// ServedModel is one served name at one upstream. The upstream keeps it up to date, so that a pick
// reads one atomic where Serves looks the name up. It lives as long as the upstream.
type ServedModel struct{ unavailable atomic.Bool }

// Available is what Serves returns for the name. Any goroutine may call it.
func (m *ServedModel) Available() bool { return !m.unavailable.Load() }

// ServedModel returns the entry of a served name, always the same one for the same name. The caller
// passes configured names only, so the map is bounded.
func (u *Upstream) ServedModel(served string) *ServedModel {
	u.mu.Lock()
	defer u.mu.Unlock()
	m := u.servedModels[served]
	if m == nil {
		m = new(ServedModel)
		m.unavailable.Store(!u.Serves(served))
		u.servedModels[served] = m
	}
	return m
}

// renewServed brings every ServedModel up to date after a change of what Serves looks at. It logs
// each model that left its route or came back to it. The caller holds mu.
func (u *Upstream) renewServed() {
	expected := u.settings.Load().expected
	for served, m := range u.servedModels {
		unavailable := !u.Serves(served)
		if m.unavailable.Swap(unavailable) == unavailable {
			continue
		}
		u.set.o.OnRoom(u)
		switch {
		case !slices.Contains(expected, served):
		case unavailable:
			u.log.Warn("upstream does not serve a model now", zap.String("upstream", u.label), zap.String("served", served), zap.String("cause", u.notServedReason(served)))
		default:
			u.log.Info("upstream serves the model again", zap.String("upstream", u.label), zap.String("served", served))
		}
	}
}

// Serves reports whether the upstream has the model now. It is false only when the engine's list
// lacks the name, where that list means something, or when the engine answered 404 for it and no
// list has had it since. It does not allocate.
func (u *Upstream) Serves(served string) bool {
	if u.isMissing(served) {
		return false
	}
	return u.models.Load().Serves(u.engine.Load(), served)
}

// Models returns what the engine listed last, nil when it lists nothing. The slice is shared and
// must not be written.
func (u *Upstream) Models() []engine.ModelInfo {
	return u.models.Load().All()
}

// Model returns what the engine says about a served name, and false when it says nothing.
func (u *Upstream) Model(served string) (engine.ModelInfo, bool) {
	return u.models.Load().Find(u.engine.Load(), served)
}

// MaxContext returns the greatest context in tokens that the engine reports for a served name, 0
// when it does not.
func (u *Upstream) MaxContext(served string) int {
	m, _ := u.Model(served)
	return m.Context
}
