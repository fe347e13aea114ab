package upstreams

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/upstreams/engine"
)

// ServedModels are the models that an upstream has, by its engine's list and by 404s of calls.
type ServedModels struct {
	view atomic.Pointer[modelView]

	mu       sync.Mutex
	expected []string // served names that routes send here
	entries  map[string]*ServedModel
	flaps    map[string]flaps // by served name

	hooks *hooks
}

func (s *ServedModels) init(profile *engine.Profile, expected []string, hooks *hooks) {
	s.expected, s.hooks, s.entries, s.flaps = expected, hooks, map[string]*ServedModel{}, map[string]flaps{}
	s.view.Store(&modelView{profile: profile})
}

// modelView is what decides whether a model is served. It never changes.
type modelView struct {
	profile *engine.Profile
	list    *engine.ModelList // nil: the engine lists nothing
	missing missingModels
}

func (v *modelView) serves(served string) bool {
	if _, gone := v.missing[served]; gone {
		return false
	}
	return v.list.Serves(v.profile, served)
}

// ServedModel is one served name at one upstream. The upstream keeps it up to date, so that a pick
// reads one atomic where Serves looks the name up. It lives as long as the upstream.
type ServedModel struct{ unavailable atomic.Bool }

// Available is what Serves returns for the name. Any goroutine may call it.
func (m *ServedModel) Available() bool { return !m.unavailable.Load() }

// Entry returns the entry of a served name, always the same one for the same name. The caller
// passes configured names only, so the map is bounded.
func (s *ServedModels) Entry(served string) *ServedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.entries[served]
	if m == nil {
		m = new(ServedModel)
		m.unavailable.Store(!s.Serves(served))
		s.entries[served] = m
	}
	return m
}

// Serves reports whether the upstream has the model now. It is false only when the engine's list
// lacks the name, where that list means something, or when the engine answered 404 for it and no
// list has had it since. It does not allocate.
func (s *ServedModels) Serves(served string) bool { return s.view.Load().serves(served) }

// All returns what the engine listed last, nil when it lists nothing. The slice is shared and must
// not be written.
func (s *ServedModels) All() []engine.ModelInfo { return s.view.Load().list.All() }

// Find returns what the engine says about a served name, and false when it says nothing.
func (s *ServedModels) Find(served string) (engine.ModelInfo, bool) {
	v := s.view.Load()
	return v.list.Find(v.profile, served)
}

// MaxContext returns the greatest context in tokens that the engine reports for a served name, 0
// when it does not.
func (s *ServedModels) MaxContext(served string) int {
	m, _ := s.Find(served)
	return m.Context
}

// configure takes over another engine and other expectations.
func (s *ServedModels) configure(profile *engine.Profile, expected []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = expected
	s.show(profile, s.view.Load().list, s.view.Load().missing)
}

// recognise takes over another engine.
func (s *ServedModels) recognise(profile *engine.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.show(profile, s.view.Load().list, s.view.Load().missing)
}

// setList stores a list that was read from begun on. A nil list forgets the last one: an engine
// that stops listing is not empty.
func (s *ServedModels) setList(list *engine.ModelList, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	s.show(v.profile, list, v.missing.still(v.profile, list, begun))
}

// list is what the engine listed last; nil: nothing.
func (s *ServedModels) list() *engine.ModelList { return s.view.Load().list }

// show puts another view in place and brings every ServedModel up to date. It logs each model that
// left its route or came back to it. The caller holds mu.
func (s *ServedModels) show(profile *engine.Profile, list *engine.ModelList, missing missingModels) {
	v := &modelView{profile, list, missing}
	s.view.Store(v)
	for served, m := range s.entries {
		unavailable := !v.serves(served)
		if m.unavailable.Swap(unavailable) == unavailable {
			continue
		}
		s.hooks.room()
		switch {
		case !slices.Contains(s.expected, served):
		case unavailable:
			s.hooks.log.Warn("upstream does not serve a model now",
				zap.String("served", served), zap.String("cause", s.whyNot(served)))
		default:
			s.hooks.log.Info("upstream serves the model again", zap.String("served", served))
		}
	}
}

// whyNot says why a name is not served.
func (s *ServedModels) whyNot(served string) string {
	v := s.view.Load()
	if _, gone := v.missing[served]; gone {
		return "engine answered 404 for the model"
	}
	if _, listed := v.list.Find(v.profile, served); listed {
		return "engine lists the model but has not loaded it"
	}
	return "engine does not list the model"
}

// unserved returns the expected names that are not served.
func (s *ServedModels) unserved(expected []string) (names []string) {
	for _, name := range expected {
		if !s.Serves(name) {
			names = append(names, name)
		}
	}
	return names
}
