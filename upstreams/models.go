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
	view      atomic.Pointer[modelView]
	residents residency.OptionalGate // turns of the models, if the engine keeps few models in memory
	up        *Upstream

	mu              sync.Mutex
	expected        []string // served names that routes request from this upstream
	entries         map[string]*ServedModel
	flaps           map[string]recentOutages // recent outages, by served name
	publishedModels engine.TrackedModels     // derives the published models from the list
	publishesList   bool                     // the list determines the published models
	turnTimer       *time.Timer              // calls handleTurnChange; nil until first used

	hooks *upstreamHooks
}

func (s *ServedModels) init(u *Upstream, profile *engine.Profile, st *settings) {
	s.up, s.expected, s.hooks, s.publishesList = u, st.expected, &u.hooks, st.spec.Lists
	s.entries, s.flaps = map[string]*ServedModel{}, map[string]recentOutages{}
	s.view.Store(&modelView{profile: profile})
	s.residents.SetConfiguredCapacity(st.spec.Residents)
}

// scheduleTurnChange schedules a wake-up of the waiting calls at the next change of turns. It must
// be called when a call ends or begins to wait.
func (s *ServedModels) scheduleTurnChange(now time.Time) {
	if s.residents.Gate() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	setTurnTimer(s, now)
}

// setTurnTimer sets the timer for the next change of turns. The caller must hold mu.
func setTurnTimer(s *ServedModels, now time.Time) {
	g := s.residents.Gate()
	if g == nil {
		return
	}
	in, ok := g.TimeUntilNextChange(now)
	switch {
	case !ok:
	case s.turnTimer == nil:
		s.turnTimer = time.AfterFunc(in, s.handleTurnChange)
	default:
		s.turnTimer.Reset(in)
	}
}

func (s *ServedModels) handleTurnChange() {
	defer s.hooks.guard.Catch(guardSlotWakeups, nil)
	s.hooks.wakeWaiting()
	s.scheduleTurnChange(time.Now())
}

// modelView contains the facts that determine which models are served. It is immutable.
type modelView struct {
	profile  *engine.Profile
	list     *engine.ModelList // nil if the engine lists no models
	listedAt time.Time         // when the edge started to read the list
	missing  missingModels
}

func (v *modelView) serves(served string) bool {
	if _, gone := v.missing[served]; gone {
		return false
	}
	return v.list.Serves(v.profile, served)
}

// isLoaded reports whether the engine lists the name as loaded. ok is false if the engine does not
// report whether the model is loaded.
func (v *modelView) isLoaded(served string) (loaded, ok bool) {
	m, _ := v.list.Find(v.profile, served)
	return m.Loaded, m.LoadedKnown
}

// ServedModel is one served name at one upstream. The upstream keeps the ServedModel up to date, so
// routing can read atomic fields instead of looking up the name. A ServedModel is safe for
// concurrent use.
type ServedModel struct {
	speed         speedometer
	responses     responseTimes
	callTime      movingAverage // seconds that a successful call holds its slot
	lacking       lackTracker
	isUnavailable atomic.Bool
	contextLength atomic.Int64                    // in tokens; 0 if not reported
	turn          atomic.Pointer[residency.Model] // nil if the upstream's models take no turns
	// When a call last found the model loaded, in Unix nanoseconds.
	lastLoaded  atomic.Int64
	adapterAway atomic.Bool // the model is an adapter that is probably not loaded
	served      string
	lastUsed    time.Time // when the engine last reported that this adapter is in use; guarded by models.mu
	models      *ServedModels
}

// IsAvailable is like ServedModels.Serves, for this name.
func (m *ServedModel) IsAvailable() bool { return !m.isUnavailable.Load() }

// AverageCallTime returns the average time for which a successful call holds its slot, or 0 if no
// call has ended yet.
func (m *ServedModel) AverageCallTime() time.Duration {
	return time.Duration(m.callTime.value() * float64(time.Second))
}

// ContextLength is like ServedModels.MaxContext, for this name.
func (m *ServedModel) ContextLength() int { return int(m.contextLength.Load()) }

// coldModelPenaltyPerSlot, multiplied by Load.Limit, is added to the load of an upstream that must
// first load the model. A call completes sooner at an upstream that has loaded the model and has a
// free slot.
const coldModelPenaltyPerSlot = 2

// coldAdapterPenalty, in calls, is added to the load of an upstream that must first load an
// adapter.
const coldAdapterPenalty = 1

// setAdapters estimates which adapters the engine has loaded: the most recently used adapters, as
// many as fit. If the list does not determine the published models, all adapters count as loaded.
func setAdapters(s *ServedModels, a *engine.Adapters, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	var adapters []*ServedModel
	for _, m := range s.entries {
		if info, _ := v.list.Find(v.profile, m.served); info.Parent != "" && a != nil && s.publishesList {
			if slices.Contains(a.InUse, m.served) {
				m.lastUsed = at
			}
			adapters = append(adapters, m)
		} else {
			m.adapterAway.Store(false)
		}
	}
	slices.SortFunc(adapters, func(a, b *ServedModel) int { return b.lastUsed.Compare(a.lastUsed) })
	for i, m := range adapters {
		m.adapterAway.Store(m.lastUsed.IsZero() || i >= a.Most)
	}
}

// AdjustLoadForCall adjusts l, the upstream's load, for a call to this model. During another
// model's turn, the load shows no free slot.
func (m *ServedModel) AdjustLoadForCall(l *Load, now time.Time) {
	if m.adapterAway.Load() {
		l.Penalty += coldAdapterPenalty
	}
	p := m.turn.Load()
	if p == nil {
		return
	}
	switch passes, cold := p.CanAdmitCall(now); {
	case !passes:
		l.Active, l.Taken = max(l.Active, l.Limit), max(l.Taken, l.Limit)
	case cold:
		l.Penalty += float64(coldModelPenaltyPerSlot * l.Limit)
	}
}

// TryLease is like Upstream.TryLease, for a call of this model. free is the percentage of the slots
// that the call must leave unused. TryLease returns false during another model's turn.
func (m *ServedModel) TryLease(key string, p SlotPool, prompt Prompt, free config.Percent, now time.Time) (*Lease, bool) {
	l, ok := acquireLease(m.models.up, key, p, prompt, free, now)
	if !ok {
		return nil, false
	}
	if l.model = m; !l.enterModelTurn(now) {
		return nil, false
	}
	l.markLoading()
	return l, true
}

// BeginWait registers a waiting call, so that its model gets a turn. The caller must call quit when
// the wait ends. quit is nil if the upstream's models take no turns.
func (m *ServedModel) BeginWait(now time.Time) (quit func()) {
	p := m.turn.Load()
	if p == nil {
		return nil
	}
	if p.BeginWait(now) { // the registration has admitted the model, so waiting calls should try again
		m.models.hooks.wakeWaiting()
	}
	m.models.scheduleTurnChange(now)
	return func() {
		if p.EndWait() { // the waiting call may have blocked other models
			m.models.handleTurnChange()
		}
	}
}

// mayBeLoading reports whether the engine may still be loading the model. If a call has succeeded
// since the list was read, the list does not count.
func (m *ServedModel) mayBeLoading() bool {
	if p := m.turn.Load(); p != nil {
		return p.MayStillBeLoading()
	}
	v := m.models.view.Load()
	loaded, ok := v.isLoaded(m.served)
	return ok && !loaded && v.profile.HasQuirk(config.QuirkLoadsOnDemand) && m.lastLoaded.Load() <= v.listedAt.UnixNano()
}

// CanAdmitCallNow reports whether it is the model's turn now, so that the upstream admits its
// calls.
func (m *ServedModel) CanAdmitCallNow(now time.Time) bool {
	p := m.turn.Load()
	if p == nil {
		return true
	}
	ok, _ := p.CanAdmitCall(now)
	return ok
}

// enterTurnForProbe enters a model's turn for a generation probe. turn is nil if the upstream's
// models take no turns.
func (s *ServedModels) enterTurnForProbe(served string, now time.Time) (turn *residency.Model, ok bool) {
	if turn = s.FindModel(served).turn.Load(); turn == nil {
		return nil, true
	}
	return turn, s.enterTurn(turn, now)
}

// enterTurn enters a model's turn, if it is the model's turn now. If another model can then be
// admitted, enterTurn also wakes the waiting calls.
func (s *ServedModels) enterTurn(turn *residency.Model, now time.Time) bool {
	ok, opens := turn.AdmitCall(now)
	if opens {
		s.hooks.wakeWaiting()
	}
	return ok
}

// IsLoading reports whether the engine is probably loading a model whose turn has begun. While an
// engine loads a model, it may not respond at all.
func (s *ServedModels) IsLoading() bool {
	g := s.residents.Gate()
	return g != nil && g.IsLoading()
}

// setResidentCount changes the number of models that the engine keeps in memory. The caller must
// hold mu.
func (s *ServedModels) setResidentCount(change func(int) bool, n int) {
	if !change(n) {
		return
	}
	for _, m := range s.entries {
		m.updateTurn()
	}
	s.hooks.wakeWaiting()
}

func (m *ServedModel) updateTurn() {
	if g := m.models.residents.Gate(); g != nil {
		p := g.Model(m.served)
		p.SetMissingAtEngine(m.isUnavailable.Load())
		m.turn.Store(p)
	} else {
		m.turn.Store(nil)
	}
}

// FindModel returns the entry for a served name. The entry stays the same while the configuration
// expects the name at this upstream. Callers pass only expected names, so the map is bounded.
func (s *ServedModels) FindModel(served string) *ServedModel {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.entries[served]
	if m == nil {
		m = &ServedModel{served: served, models: s}
		m.isUnavailable.Store(!s.Serves(served))
		m.contextLength.Store(int64(s.MaxContext(served)))
		m.updateTurn()
		s.entries[served] = m
	}
	return m
}

// Serves reports whether the upstream serves the model now. It returns false if the engine's list
// is authoritative and lacks the name, or if the engine answered 404 and no later list contains the
// name. Serves does not allocate.
func (s *ServedModels) Serves(served string) bool { return s.view.Load().serves(served) }

// ListedModels returns the engine's last model list, or nil if the engine lists no models. The
// slice is shared and must not be modified.
func (s *ServedModels) ListedModels() []engine.ModelInfo { return s.view.Load().list.All() }

// ModelInfo returns the engine's information about a served name.
func (s *ServedModels) ModelInfo(served string) (engine.ModelInfo, bool) {
	v := s.view.Load()
	return v.list.Find(v.profile, served)
}

// MaxContext returns the context length in tokens that the engine reports for a served name, or 0.
func (s *ServedModels) MaxContext(served string) int {
	m, _ := s.ModelInfo(served)
	return m.Context
}

func (s *ServedModels) configure(profile *engine.Profile, st *settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected, s.publishesList = st.expected, st.spec.Lists
	s.setResidentCount(s.residents.SetConfiguredCapacity, st.spec.Residents)
	v := s.view.Load()
	s.applyView(profile, v.list, v.listedAt, v.missing)
	for served := range s.entries { // drop old names, because an engine may list any number of names
		if !slices.Contains(st.expected, served) {
			delete(s.entries, served)
			delete(s.flaps, served)
		}
	}
	if g := s.residents.Gate(); g != nil {
		g.RetainModels(st.expected)
	}
}

// setProfile applies a newly detected engine.
func (s *ServedModels) setProfile(profile *engine.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	s.applyView(profile, v.list, v.listedAt, v.missing)
}

// setList stores a model list. begun is when the edge started to read the list. A nil list discards
// the previous list, because an engine that no longer lists models may still serve them.
func (s *ServedModels) setList(list *engine.ModelList, begun time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view.Load()
	s.applyView(v.profile, list, begun, v.missing.stillMissing(v.profile, list, begun))
	if g := s.residents.Gate(); g != nil && list != nil && g.UpdateResidents(s.view.Load().isLoaded, begun) {
		s.hooks.wakeWaiting()
	}
	if s.publishesList && list != nil && s.publishedModels.Update(list.All()) {
		s.hooks.modelsChanged()
	}
}

// publishedModels returns the models to publish, derived from the engine's model list. ok is false
// until a list has been read.
func publishedModels(s *ServedModels) (models []config.ListedModel, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	profile := s.view.Load().profile
	for _, m := range s.publishedModels.Models() {
		models = append(models, config.ListedModel{
			Name: m.ID, Kind: engine.ModelKind(profile, &m), Parent: m.Parent, Aliases: engine.ModelAliases(profile, &m),
		})
	}
	return models, s.publishedModels.Listed
}

// setReportedResidentCount stores how many models the engine can keep loaded, according to its
// report.
func (s *ServedModels) setReportedResidentCount(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setResidentCount(s.residents.SetReportedCapacity, n)
}

// applyView replaces the view and updates every ServedModel. It logs each model that became
// unavailable or available. The caller must hold mu.
func (s *ServedModels) applyView(profile *engine.Profile, list *engine.ModelList, listed time.Time, missing missingModels) {
	v := &modelView{profile, list, listed, missing}
	s.view.Store(v)
	for served, m := range s.entries {
		m.contextLength.Store(int64(s.MaxContext(served)))
		unavailable := !v.serves(served)
		if m.isUnavailable.Swap(unavailable) == unavailable {
			continue
		}
		m.updateTurn()
		s.hooks.wakeWaiting()
		switch {
		case !slices.Contains(s.expected, served):
		case unavailable:
			s.hooks.log.Warn("upstream does not serve a model now",
				zap.String("served", served), zap.String("cause", s.unavailableReason(served)))
		default:
			s.hooks.log.Info("upstream serves the model again", zap.String("served", served))
		}
	}
	setTurnTimer(s, time.Now())
}

func (s *ServedModels) unavailableReason(served string) string {
	v := s.view.Load()
	if _, gone := v.missing[served]; gone {
		return "engine answered 404 for the model"
	}
	if _, listed := v.list.Find(v.profile, served); listed {
		return "engine lists the model but has not loaded it"
	}
	return "engine does not list the model"
}

func (s *ServedModels) unservedNames(expected []string) (names []string) {
	for _, name := range expected {
		if !s.Serves(name) {
			names = append(names, name)
		}
	}
	return names
}
