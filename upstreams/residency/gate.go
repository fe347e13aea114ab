package residency

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// A fair share lasts turnLoadFactor times the duration of a load, but at least minTurnTime and
	// at most maxTurnTime. Loading therefore takes at most about a tenth of the time.
	turnLoadFactor = 10
	minTurnTime    = 2 * time.Second
	maxTurnTime    = 2 * time.Minute
	// maxIdleHold is the maximum time for which an idle model keeps its place while other models
	// are waiting.
	maxIdleHold = 2 * time.Second
	// reservedPlaceTime is how long a place is reserved for the next model.
	reservedPlaceTime = time.Second
	// skipTimeAfterUnusedTurn is how long a model is skipped after an unused turn.
	skipTimeAfterUnusedTurn = 5 * time.Second
)

// Gate manages the places for models at one engine. It is safe for concurrent use.
type Gate struct {
	mu            sync.Mutex
	capacity      int
	models        map[string]*Model
	order         []*Model      // by name, so that ties are always resolved in the same way
	admittedCalls uint64        // calls admitted so far
	usualLoadTime time.Duration // usual duration of a load, or 0 if unknown

	// updateTurns recomputes the following fields.
	waiting          []*Model // models that have waiting calls but no place; the next model is first
	residents        []*Model // models that have a place; the least recently used model is first
	blockedResidents []*Model // residents that get no new calls, because other models are waiting
	evictableCount   int      // number of models at the front of residents that can be evicted
}

// New returns a Gate for an engine that keeps the given number of models loaded.
func New(places int) *Gate { return &Gate{capacity: max(1, places), models: map[string]*Model{}} }

// Model is the state of one model at a gate.
type Model struct {
	gate *Gate
	name string

	// The gate's lock guards the following fields.
	absent           bool // the engine does not serve the model now, so its calls get no turn
	resident         bool
	mayBeUnloaded    bool      // the model is resident, but no call has shown yet that it is loaded
	residencyChanged time.Time // when the model got or lost its place
	lastCallNumber   uint64    // sequence number of the model's last call
	endedAt          time.Time // when the model's last call ended
	running          int
	waiters          int
	waitingSince     time.Time // when the model began to wait for a turn
	offeredAt        time.Time // when the current turn was first offered, or zero
	skippedUntil     time.Time // the model did not use its turn, so it is skipped until this time
}

// Model returns the state of a model, and creates it if necessary. Until RetainModels removes the
// model, Model returns the same *Model for the same name.
func (g *Gate) Model(name string) *Model {
	g.mu.Lock()
	defer g.mu.Unlock()
	m := g.models[name]
	if m == nil {
		m = &Model{gate: g, name: name}
		g.models[name] = m
		i, _ := slices.BinarySearchFunc(g.order, name, func(o *Model, n string) int { return cmp.Compare(o.name, n) })
		g.order = slices.Insert(g.order, i, m)
	}
	return m
}

// RetainModels removes models that are not in names, unless they have a place or waiting calls.
func (g *Gate) RetainModels(names []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.order = slices.DeleteFunc(g.order, func(m *Model) bool {
		gone := !m.resident && m.running == 0 && m.waiters == 0 && !slices.Contains(names, m.name)
		if gone {
			delete(g.models, m.name)
		}
		return gone
	})
}

// CanAdmitCall reports whether a call for the model may be sent now, and whether the engine would
// have to load the model.
func (m *Model) CanAdmitCall(now time.Time) (ok, cold bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.updateTurns(now)
	return g.canAdmit(m), !m.resident
}

// AdmitCall admits a call for the model. ok reports whether the call may be sent. If ok is true,
// the caller must call EndCall when the call ends. opens reports whether waiting calls of another
// model may now be sent, because an idle model has become the next model to be evicted.
func (m *Model) AdmitCall(now time.Time) (ok, opens bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.updateTurns(now)
	if !g.canAdmit(m) {
		return false, false
	}
	if !m.resident {
		g.makeResident(m, now)
	}
	m.running++
	g.admittedCalls++
	m.lastCallNumber, m.offeredAt, m.skippedUntil = g.admittedCalls, time.Time{}, time.Time{}
	before := g.freePlaces()
	g.updateTurns(now)
	return true, g.freePlaces() > before
}

// EndCall ends an admitted call. On a nil model it does nothing.
func (m *Model) EndCall(now time.Time) {
	if m == nil {
		return
	}
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.running--
	m.endedAt = now
}

// MayStillBeLoading reports whether the model may not be loaded yet.
func (m *Model) MayStillBeLoading() bool {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	return !m.resident || m.mayBeUnloaded
}

// RecordLoaded records that a model has responded, so it is loaded. took is the time since the
// request was sent, or 0 if unknown.
func (m *Model) RecordLoaded(took time.Duration) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !m.mayBeUnloaded {
		return
	}
	m.mayBeUnloaded = false
	switch {
	case took <= 0:
	case g.usualLoadTime == 0:
		g.usualLoadTime = took
	default:
		g.usualLoadTime = (g.usualLoadTime + took) / 2
	}
}

// BeginWait registers a waiting call for the model. The caller must call EndWait when the wait
// ends. opens reports whether the model's calls may now be sent because this call was registered.
func (m *Model) BeginWait(now time.Time) (opens bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.updateTurns(now)
	before := g.canAdmit(m)
	if m.waiters++; m.waiters == 1 {
		m.waitingSince = now
	}
	m.skippedUntil = time.Time{}
	g.updateTurns(now)
	return !before && g.canAdmit(m)
}

// EndWait ends a call's wait, and reports whether the call was the model's last waiting call. If a
// turn was offered, reservedPlaceTime starts again for the next waiting call.
func (m *Model) EndWait() (last bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.waiters--
	m.offeredAt = time.Time{}
	return m.waiters == 0
}

// SetMissingAtEngine records whether the engine lacks the model. Calls for an absent model get no
// turn.
func (m *Model) SetMissingAtEngine(absent bool) {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	m.absent = absent
}

// SetCapacity changes the number of models that the engine keeps loaded. Surplus models keep their
// places until other models need them.
func (g *Gate) SetCapacity(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.capacity = max(1, n)
}

// UpdateResidents updates the resident models from the engine's list of loaded models. begun is
// when the edge started to read the list. Models that have running calls, or that got or lost their
// place after begun, do not change. UpdateResidents reports whether any model got or lost a place.
func (g *Gate) UpdateResidents(loaded func(name string) (loaded, ok bool), begun time.Time) (changed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	residents := 0
	for _, m := range g.order {
		if m.resident && m.running == 0 && m.endedAt.Before(begun) {
			if is, ok := loaded(m.name); ok && !is {
				m.evict(begun)
				changed = true
			}
		}
		if m.resident {
			residents++
		}
	}
	for _, m := range g.order {
		if !m.resident && residents < g.capacity && m.residencyChanged.Before(begun) {
			if is, ok := loaded(m.name); ok && is {
				m.resident, m.residencyChanged, m.mayBeUnloaded = true, begun, false
				residents++
				changed = true
			}
		}
	}
	return changed
}

// TimeUntilNextChange returns how long until the turns may change without any call. ok is false if
// they will not change.
func (g *Gate) TimeUntilNextChange(now time.Time) (in time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.updateTurns(now)
	soonest := time.Time{}
	at := func(t time.Time) {
		if t.After(now) && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	for _, m := range g.order {
		switch {
		case m.waiters == 0, m.absent:
		case m.skippedUntil.After(now):
			at(m.skippedUntil)
		case !m.offeredAt.IsZero():
			at(m.offeredAt.Add(reservedPlaceTime))
		}
	}
	if len(g.waiting) > 0 {
		for _, m := range g.order {
			if m.resident && m.running == 0 {
				at(m.endedAt.Add(g.idleHoldTime()))
				at(m.residencyChanged.Add(g.turnTime()))
			}
		}
	}
	return soonest.Sub(now), !soonest.IsZero()
}

// Resident is a model that has a place or is waiting for a place.
type Resident struct {
	Model    string  `json:"model"`
	Resident bool    `json:"resident"`
	Loading  bool    `json:"loading"`
	Running  int     `json:"running"`
	Waiting  int     `json:"waiting"`
	Seconds  float64 `json:"seconds"` // seconds since the model got or lost its place
}

// Snapshot is a copy of a gate's state.
type Snapshot struct {
	Places      int        `json:"places"`
	LoadSeconds float64    `json:"load_seconds"` // usual duration of a load, or 0 if unknown
	Models      []Resident `json:"models"`
}

// Snapshot returns a copy of the gate's state.
func (g *Gate) Snapshot(now time.Time) *Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &Snapshot{Places: g.capacity, LoadSeconds: g.usualLoadTime.Seconds()}
	for _, m := range g.order {
		if m.residencyChanged.IsZero() && m.waiters == 0 {
			continue
		}
		r := Resident{Model: m.name, Resident: m.resident, Loading: m.isLoading(), Running: m.running, Waiting: m.waiters}
		if !m.residencyChanged.IsZero() {
			r.Seconds = now.Sub(m.residencyChanged).Seconds()
		}
		s.Models = append(s.Models, r)
	}
	return s
}

// IsLoading reports whether the engine may be loading a model.
func (g *Gate) IsLoading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.order, (*Model).isLoading)
}

func (m *Model) isLoading() bool { return m.resident && m.mayBeUnloaded && m.running > 0 }

func (g *Gate) turnTime() time.Duration {
	return min(max(turnLoadFactor*g.usualLoadTime, minTurnTime), maxTurnTime)
}

// idleHoldTime returns how long an idle model keeps its place.
func (g *Gate) idleHoldTime() time.Duration { return min(g.usualLoadTime, maxIdleHold) }

// updateTurns updates the turns. The caller must hold mu.
func (g *Gate) updateTurns(now time.Time) {
	g.waiting, g.residents, g.blockedResidents = g.waiting[:0], g.residents[:0], g.blockedResidents[:0]
	for _, m := range g.order {
		m.expireOffer(now)
		switch {
		case m.resident:
			g.residents = append(g.residents, m)
		case m.waiters > 0 && !m.absent && !m.skippedUntil.After(now):
			g.waiting = append(g.waiting, m)
		}
	}
	slices.SortStableFunc(g.waiting, func(a, b *Model) int { return a.waitingSince.Compare(b.waitingSince) })
	// Engines evict the least recently used model, and some of them do so even if that model has
	// running requests. A model can therefore be evicted only if it is the next model in that order
	// and all of the edge's calls for the model have ended.
	slices.SortStableFunc(g.residents, func(a, b *Model) int { return cmp.Compare(a.lastCallNumber, b.lastCallNumber) })
	g.evictableCount = 0
	for g.evictableCount < len(g.residents) && g.isEvictable(g.residents[g.evictableCount], now) {
		g.evictableCount++
	}
	wanted := len(g.waiting) - max(0, g.capacity-len(g.residents))
	for i, m := range g.residents {
		if len(g.blockedResidents) < wanted && (i < g.evictableCount || now.Sub(m.residencyChanged) >= g.turnTime()) {
			g.blockedResidents = append(g.blockedResidents, m)
		}
	}
	for i, m := range g.waiting {
		if i < g.freePlaces() && m.offeredAt.IsZero() {
			m.offeredAt = now
		}
	}
}

func (g *Gate) freePlaces() int { return g.capacity - len(g.residents) + g.evictableCount }

// isEvictable reports whether a resident has no running calls, and is idle or has had its fair
// share.
func (g *Gate) isEvictable(m *Model, now time.Time) bool {
	return m.running == 0 &&
		(now.Sub(m.residencyChanged) >= g.turnTime() || m.waiters == 0 && now.Sub(m.endedAt) >= g.idleHoldTime())
}

func (m *Model) expireOffer(now time.Time) {
	if !m.offeredAt.IsZero() && now.Sub(m.offeredAt) >= reservedPlaceTime {
		m.offeredAt, m.skippedUntil, m.waitingSince = time.Time{}, now.Add(skipTimeAfterUnusedTurn), now
	}
}

// canAdmit reports whether a call for m may be sent. The caller must have called updateTurns
// before.
func (g *Gate) canAdmit(m *Model) bool {
	if m.resident {
		return !slices.Contains(g.blockedResidents, m)
	}
	turn := slices.Index(g.waiting, m)
	if turn < 0 {
		turn = len(g.waiting)
	}
	return turn < g.freePlaces()
}

// makeResident assigns a place to m, and evicts the least recently used models if there is no free
// place. The caller must have called canAdmit before.
func (g *Gate) makeResident(m *Model, now time.Time) {
	for i := 0; i < g.evictableCount && len(g.residents)-i >= g.capacity; i++ {
		g.residents[i].evict(now)
	}
	m.resident, m.mayBeUnloaded, m.residencyChanged = true, true, now
}

// evict removes the model from its place. Calls for this model then wait for a turn.
func (m *Model) evict(now time.Time) {
	m.resident, m.mayBeUnloaded, m.residencyChanged, m.waitingSince, m.offeredAt = false, false, now, now, time.Time{}
}
