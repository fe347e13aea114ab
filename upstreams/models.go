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

// ServedModels tracks which models an upstream serves, based on the engine's model list and on
// 404s.
type ServedModels struct {
	view   atomic.Pointer[modelView]
	places residency.Places // turns of an engine that keeps few models in memory
	up     *Upstream

	mu       sync.Mutex
	expected []string // served names that routes request from this upstream
	entries  map[string]*ServedModel
	flaps    map[string]flaps // by served name
	found    engine.Listing   // models that the list publishes
	lists    bool             // the list determines the published models
	turn     *time.Timer      // calls turnsChange; nil until first used

	hooks *hooks
}

func (s *ServedModels) init(u *Upstream, profile *engine.Profile, st *settings) {
	s.up, s.expected, s.hooks, s.lists = u, st.expected, &u.hooks, st.spec.Lists
	s.entries, s.flaps = map[string]*ServedModel{}, map[string]flaps{}
	s.view.Store(&modelView{profile: profile})
	s.places.Configure(st.spec.Residents)
}

// awaitTurn schedules a wake-up of waiting calls for the next change of turns. It must be called
// when a call ends or begins to wait.
func (s *ServedModels) awaitTurn(now time.Time) {
	if s.places.Gate() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	changeTurns(s, now)
}

// changeTurns sets the timer for the next change of turns. The caller holds mu.
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

func (s *ServedModels) turnsChange() {
	defer s.hooks.guard.Catch(guardRoom, nil)
	s.hooks.room()
	s.awaitTurn(time.Now())
}

// modelView holds the facts that determine which models are served. It is immutable.
type modelView struct {
	profile *engine.Profile
	list    *engine.ModelList // nil if the engine lists no models
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
// report it.
func (v *modelView) loaded(served string) (loaded, ok bool) {
	m, _ := v.list.Find(v.profile, served)
	return m.Loaded, m.LoadedKnown
}

// ServedModel is one served name at one upstream. The upstream keeps it up to date, so routing can
// read atomics instead of looking up the name. A ServedModel is safe for concurrent use.
type ServedModel struct {
	speed       speedometer
	answers     answerTimes
	lacking     lacking
	unavailable atomic.Bool
	context     atomic.Int64                    // in tokens; 0 if not reported
	place       atomic.Pointer[residency.Model] // nil if the model needs no turn
	answered    atomic.Int64                    // when a call last found the model loaded, in Unix nanoseconds
	away        atomic.Bool                     // the model is an adapter that is probably not loaded
	served      string
	used        time.Time // when the engine last reported this adapter in use; guarded by all.mu
	all         *ServedModels
}

// Available is like Serves, for this name.
func (m *ServedModel) Available() bool { return !m.unavailable.Load() }

// Context is like MaxContext, for this name.
func (m *ServedModel) Context() int { return int(m.context.Load()) }

// If an upstream must first load the model, coldPenalty times its places is added to its load. A
// call completes sooner at an upstream that has the model loaded and a slot free.
const coldPenalty = 2

// awayPenalty, in calls, is added to the load of an upstream that must first load an adapter.
const awayPenalty = 1

// setAdapters estimates which adapters the engine has loaded. It assumes the most recently used
// adapters, as many as fit. If the list does not publish models, no adapter counts as away.
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

// Weigh adjusts the upstream's load for a call of this model. During another model's turn, the load
// shows no free slot.
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

// TryLease is like Upstream.TryLease, for a call of this model. The call must leave the given share
// of the slots free. It fails during another model's turn.
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

// Wait registers a waiting call, so that its model gets a turn. The caller calls quit when the wait
// ends. quit is nil if there are no turns.
func (m *ServedModel) Wait(now time.Time) (quit func()) {
	p := m.place.Load()
	if p == nil {
		return nil
	}
	if p.Wait(now) { // the registration has just admitted the model, so the calls should look for a slot again
		m.all.hooks.room()
	}
	m.all.awaitTurn(now)
	return func() {
		if p.Quit() { // the waiting call may have blocked other models
			m.all.turnsChange()
		}
	}
}

// loads reports whether the engine may still be loading the model. A successful call is newer
// evidence than a list that was read before the call.
func (m *ServedModel) loads() bool {
	if p := m.place.Load(); p != nil {
		return p.Cold()
	}
	v := m.all.view.Load()
	loaded, ok := v.loaded(m.served)
	return ok && !loaded && v.profile.Has(config.QuirkLoadsOnDemand) && m.answered.Load() <= v.listed.UnixNano()
}

// HasTurn reports whether the turns admit a call of the model now.
func (m *ServedModel) HasTurn(now time.Time) bool {
	p := m.place.Load()
	if p == nil {
		return true
	}
	ok, _ := p.Passes(now)
	return ok
}

// takeTurn enters a model's turn for one of the edge's generation probes. turn is nil if there are
// no turns.
func (s *ServedModels) takeTurn(served string, now time.Time) (turn *residency.Model, ok bool) {
	if turn = s.Entry(served).place.Load(); turn == nil {
		return nil, true
	}
	return turn, s.enter(turn, now)
}

// enter enters a model's turn if the turns admit the model. If this makes room for another model,
// enter also wakes the waiting calls.
func (s *ServedModels) enter(turn *residency.Model, now time.Time) bool {
	ok, opens := turn.Enter(now)
	if opens {
		s.hooks.room()
	}
	return ok
}

// Loading reports whether, according to the turns, the engine is probably loading a model. While an
// engine loads a model, it may not respond at all.
func (s *ServedModels) Loading() bool {
	g := s.places.Gate()
	return g != nil && g.Loading()
}

// setPlaces changes the number of models that the engine keeps in memory. The caller holds mu.
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

// Entry returns the entry for a served name. The entry stays the same as long as the configuration
// expects the name at this upstream. The caller passes only expected names, so the map is bounded.
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

// Serves reports whether the upstream serves the model now. It returns false if the engine's list
// is authoritative and lacks the name, or if the engine answered 404 and no later list contains the
// name. Serves does not allocate.
func (s *ServedModels) Serves(served string) bool { return s.view.Load().serves(served) }

// All returns the engine's last list, or nil if the engine lists no models. The slice is shared and
// must not be modified.
func (s *ServedModels) All() []engine.ModelInfo { return s.view.Load().list.All() }

// Find returns the engine's information about a served name.
func (s *ServedModels) Find(served string) (engine.ModelInfo, bool) {
	v := s.view.Load()
	return v.list.Find(v.profile, served)
}

// MaxContext returns the context length in tokens that the engine reports for a served name, or 0.
func (s *ServedModels) MaxContext(served string) int {
	m, _ := s.Find(served)
	return m.Context
}

func (s *ServedModels) configure(profile *engine.Profile, st *settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected, s.lists = st.expected, st.spec.Lists
	s.setPlaces(s.places.Configure, st.spec.Residents)
	v := s.view.Load()
	s.show(profile, v.list, v.listed, v.missing)
	for served := range s.entries { // drop removed models, because an engine may list any number of names
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

// setList stores a list. begun is when the edge started to read the list. A nil list discards the
// previous list, because an engine that stops listing models may still serve them.
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

// found returns the models to publish, derived from the engine's model list. ok is false until a
// list has been read.
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

// told stores how many models the engine reports that it can keep loaded.
func (s *ServedModels) told(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPlaces(s.places.Tell, n)
}

// show replaces the view and updates every ServedModel. It logs each model that became unavailable
// or available. The caller holds mu.
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

func (s *ServedModels) unserved(expected []string) (names []string) {
	for _, name := range expected {
		if !s.Serves(name) {
			names = append(names, name)
		}
	}
	return names
}
