package upstreams

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/upstreams/engine"
	"penstock/upstreams/residency"
)

// ServedModels holds the models of an upstream, according to its engine's list and to 404s that
// calls got.
type ServedModels struct {
	view   atomic.Pointer[modelView]
	places residency.Places // decides turns if the engine keeps few models in memory
	up     *Upstream

	mu       sync.Mutex
	expected []string // served names that routes send here
	entries  map[string]*ServedModel
	flaps    map[string]flaps // by served name
	found    engine.Listing   // models published by the list
	lists    bool             // the list publishes models
	turn     *time.Timer      // calls turnsChange; nil: never needed so far

	hooks *hooks
}

func (s *ServedModels) init(u *Upstream, profile *engine.Profile, st *settings) {
	s.up, s.expected, s.hooks, s.lists = u, st.expected, &u.hooks, st.spec.Lists
	s.entries, s.flaps = map[string]*ServedModel{}, map[string]flaps{}
	s.view.Store(&modelView{profile: profile})
	s.places.Configure(st.spec.Residents)
}

// awaitTurn makes waiting calls look again when the turns change although no call ends. It is
// called after a call has ended or begun to wait.
func (s *ServedModels) awaitTurn(now time.Time) {
	if s.places.Gate() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changeTurns(s, now)
}

// changeTurns sets the timer that calls turnsChange when the turns may next change. The caller
// holds mu.
func changeTurns(s *ServedModels, now time.Time) {
	g := s.places.Gate()
	if g == nil {
		return
	}
	in, ok := g.NextChange(now)
	switch {
	case !ok:
	case s.turn == nil:
		s.turn = time.AfterFunc(in, s.turnsChange)
	default:
		s.turn.Reset(in)
	}
}

// turnsChange makes waiting calls look again.
func (s *ServedModels) turnsChange() {
	defer s.hooks.guard.Catch(guardRoom, nil)
	s.hooks.room()
	s.awaitTurn(time.Now())
}

// modelView holds the facts that decide whether a model is served. It is immutable.
type modelView struct {
	profile *engine.Profile
	list    *engine.ModelList // nil: the engine lists nothing
	listed  time.Time         // when the edge started to read the list
	missing missingModels
}

func (v *modelView) serves(served string) bool {
	if _, gone := v.missing[served]; gone {
		return false
	}
	return v.list.Serves(v.profile, served)
}

// loaded reports whether the engine lists the name as loaded. ok is false if the engine does not
// say.
func (v *modelView) loaded(served string) (loaded, ok bool) {
	m, _ := v.list.Find(v.profile, served)
	return m.Loaded, m.LoadedKnown
}

// ServedModel is one served name at one upstream. The upstream keeps it up to date, so that a
// pick reads an atomic instead of looking up the name, as Serves and MaxContext do. It lives as
// long as the upstream, and any goroutine may call its methods.
type ServedModel struct {
	speed       speedometer
	answers     answerTimes
	lacking     lacking
	unavailable atomic.Bool
	context     atomic.Int64                    // 0: the engine does not say
	place       atomic.Pointer[residency.Model] // nil: its calls need no turn
	answered    atomic.Int64                    // when a call found the model loaded, Unix nanoseconds
	away        atomic.Bool                     // an adapter that the engine has not used recently
	served      string
	used        time.Time // when the engine last reported this adapter in use; all.mu guards it
	all         *ServedModels
}

// Available returns the result of Serves for the name.
func (m *ServedModel) Available() bool { return !m.unavailable.Load() }

// Context returns the result of MaxContext for the name.
func (m *ServedModel) Context() int { return int(m.context.Load()) }

// Speed sets v to the measured speed of the engine with the model. It returns false if there are
// too few recent measurements.
func (m *ServedModel) Speed(v *Speed, now Moment) bool { return m.speed.read(v, now) }

// coldPenalty is the load, in multiples of full, that is added to an upstream which would first
// have to load the model. A call is faster where the model is loaded, as long as there is room.
const coldPenalty = 2

// awayPenalty is the load, in calls, that is added to an upstream which would first have to load
// an adapter. Loading takes a moment.
const awayPenalty = 1

// setAdapters records which adapters the engine has loaded, according to the engine's newest
// report: as many as fit, the most recently used first. If the list does not publish models, no
// adapter counts as away.
func setAdapters(s *ServedModels, a *engine.Adapters, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	var adapters []*ServedModel
	for _, m := range s.entries {
		if info, _ := v.list.Find(v.profile, m.served); info.Parent != "" && a != nil && s.lists {
			if slices.Contains(a.InUse, m.served) {
				m.used = at
			}
			adapters = append(adapters, m)
		} else {
			m.away.Store(false)
		}
	}
	slices.SortFunc(adapters, func(a, b *ServedModel) int { return b.used.Compare(a.used) })
	for i, m := range adapters {
		m.away.Store(m.used.IsZero() || i >= a.Most)
	}
}

// Weigh adjusts a load of the upstream for calls of this model. While it is not the model's turn,
// the load shows no room.
func (m *ServedModel) Weigh(l *Load, now time.Time) {
	if m.away.Load() {
		l.Penalty += awayPenalty
	}
	p := m.place.Load()
	if p == nil {
		return
	}
	switch passes, cold := p.Passes(now); {
	case !passes:
		l.Active, l.Taken = max(l.Active, l.Limit), max(l.Taken, l.Limit)
	case cold:
		l.Penalty += float64(coldPenalty * l.Limit)
	}
}

// TryLease is Upstream.TryLease for a call of this model that leaves some slots free. It must be
// the model's turn.
func (m *ServedModel) TryLease(key string, p Pool, prompt Prompt, free config.Percent, now time.Time) (*Lease, bool) {
	l, ok := lease(m.all.up, key, p, prompt, free, now)
	if !ok {
		return nil, false
	}
	if l.model = m; !l.enter(now) {
		return nil, false
	}
	l.load()
	return l, true
}

// Wait counts a call that waits for a slot, so that its model gets a turn. The caller calls quit
// when the wait ends. quit is nil if there are no turns.
func (m *ServedModel) Wait(now time.Time) (quit func()) {
	p := m.place.Load()
	if p == nil {
		return nil
	}
	if p.Wait(now) { // the call checked for a slot before it was counted
		m.all.hooks.room()
	}
	m.all.awaitTurn(now)
	return func() {
		if p.Quit() { // the call's wait may have kept others out
			m.all.turnsChange()
		}
	}
}

// loads reports whether the engine was asked for the model and may not have loaded it yet. An
// answered call is newer evidence than a list that was read before the call.
func (m *ServedModel) loads() bool {
	if p := m.place.Load(); p != nil {
		return p.Cold()
	}
	v := m.all.view.Load()
	loaded, ok := v.loaded(m.served)
	return ok && !loaded && v.profile.Has(config.QuirkLoadsOnDemand) && m.answered.Load() <= v.listed.UnixNano()
}

// HasTurn reports whether a call of the model may go to the upstream now, as far as the models'
// turns are concerned.
func (m *ServedModel) HasTurn(now time.Time) bool {
	p := m.place.Load()
	if p == nil {
		return true
	}
	ok, _ := p.Passes(now)
	return ok
}

// takeTurn takes a model's turn for one of the edge's own requests. The turn is nil if there are
// no turns.
func (s *ServedModels) takeTurn(served string, now time.Time) (turn *residency.Model, ok bool) {
	if turn = s.Entry(served).place.Load(); turn == nil {
		return nil, true
	}
	return turn, s.enter(turn, now)
}

// enter takes a turn for a model if it is the model's turn. If this makes room for another model,
// enter wakes the waiting calls.
func (s *ServedModels) enter(turn *residency.Model, now time.Time) bool {
	ok, opens := turn.Enter(now)
	if opens {
		s.hooks.room()
	}
	return ok
}

// Loading reports whether the engine seems to be loading a model, judged by the turns. Until the
// model is loaded, the engine may answer nothing.
func (s *ServedModels) Loading() bool {
	g := s.places.Gate()
	return g != nil && g.Loading()
}

// setPlaces changes the number of models that the engine keeps. The caller holds mu.
func (s *ServedModels) setPlaces(change func(int) bool, n int) {
	if !change(n) {
		return
	}
	for _, m := range s.entries {
		m.setPlace()
	}
	s.hooks.room()
}

func (m *ServedModel) setPlace() {
	if g := m.all.places.Gate(); g != nil {
		p := g.Model(m.served)
		p.SetAbsent(m.unavailable.Load())
		m.place.Store(p)
	} else {
		m.place.Store(nil)
	}
}

// Entry returns the entry for a served name. The entry stays the same while the configuration
// expects the name here. The caller passes only expected names, so the map is bounded.
func (s *ServedModels) Entry(served string) *ServedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.entries[served]
	if m == nil {
		m = &ServedModel{served: served, all: s}
		m.unavailable.Store(!s.Serves(served))
		m.context.Store(int64(s.MaxContext(served)))
		m.setPlace()
		s.entries[served] = m
	}
	return m
}

// Serves reports whether the upstream has the model now. It returns false only if the engine's list
// is authoritative and lacks the name, or if the engine answered 404 for the name and no later list
// has it. Serves does not allocate.
func (s *ServedModels) Serves(served string) bool { return s.view.Load().serves(served) }

// All returns the engine's last list, or nil if the engine lists nothing. The slice is shared and
// must not be modified.
func (s *ServedModels) All() []engine.ModelInfo { return s.view.Load().list.All() }

// Find returns the engine's information on a served name, and false if there is none.
func (s *ServedModels) Find(served string) (engine.ModelInfo, bool) {
	v := s.view.Load()
	return v.list.Find(v.profile, served)
}

// MaxContext returns the number of tokens of context that the engine reports for a served name, or
// 0 if it reports none.
func (s *ServedModels) MaxContext(served string) int {
	m, _ := s.Find(served)
	return m.Context
}

// configure applies a changed engine and settings.
func (s *ServedModels) configure(profile *engine.Profile, st *settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected, s.lists = st.expected, st.spec.Lists
	s.setPlaces(s.places.Configure, st.spec.Residents)
	v := s.view.Load()
	s.show(profile, v.list, v.listed, v.missing)
	for served := range s.entries { // drop entries of removed models: an engine can list any number
		if !slices.Contains(st.expected, served) {
			delete(s.entries, served)
			delete(s.flaps, served)
		}
	}
	if g := s.places.Gate(); g != nil {
		g.Keep(st.expected)
	}
}

// recognise applies a newly detected engine.
func (s *ServedModels) recognise(profile *engine.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	s.show(profile, v.list, v.listed, v.missing)
}

// setList stores a list. begun is the time at which the edge started to read it. A nil list drops
// the previous list: an engine that stops listing models may still have them.
func (s *ServedModels) setList(list *engine.ModelList, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	s.show(v.profile, list, begun, v.missing.still(v.profile, list, begun))
	if g := s.places.Gate(); g != nil && list != nil && g.Observe(s.view.Load().loaded, begun) {
		s.hooks.room()
	}
	if s.lists && list != nil && s.found.Observe(list.All()) {
		s.hooks.found()
	}
}

// found returns the models that the engine's lists have shown, for an upstream that publishes its
// models. ok is false until there is a list.
func found(s *ServedModels) (models []config.Listed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	profile := s.view.Load().profile
	for _, m := range s.found.All() {
		models = append(models, config.Listed{
			Name: m.ID, Kind: engine.KindOf(profile, &m), Parent: m.Parent, Aliases: engine.AliasesOf(profile, &m),
		})
	}
	return models, s.found.Listed
}

// told stores the number of models that the engine reports that it can keep loaded.
func (s *ServedModels) told(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPlaces(s.places.Tell, n)
}

// show replaces the view and updates every ServedModel. It logs each model that left its route or
// came back. The caller holds mu.
func (s *ServedModels) show(profile *engine.Profile, list *engine.ModelList, listed time.Time, missing missingModels) {
	v := &modelView{profile, list, listed, missing}
	s.view.Store(v)
	for served, m := range s.entries {
		m.context.Store(int64(s.MaxContext(served)))
		unavailable := !v.serves(served)
		if m.unavailable.Swap(unavailable) == unavailable {
			continue
		}
		m.setPlace()
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
	changeTurns(s, time.Now())
}

// whyNot explains why a name is not served.
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
