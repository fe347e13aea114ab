package residency

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// A fair share is shareLoads times the duration of a load, between shareMin and shareMax. Loads
	// therefore take at most about a tenth of the time.
	shareLoads = 10
	shareMin   = 2 * time.Second
	shareMax   = 2 * time.Minute
	// holdMax limits how long an idle model keeps its place while other models wait.
	holdMax = 2 * time.Second
	// claimTime is how long a place is reserved for the next model.
	claimTime = time.Second
	// forfeitTime is how long a model is skipped after an unused turn.
	forfeitTime = 5 * time.Second
)

// Gate manages the places for models at one engine. It is safe for concurrent use.
type Gate struct {
	mu     sync.Mutex
	places int
	models map[string]*Model
	order  []*Model      // by name, so that ties always resolve the same way
	calls  uint64        // calls admitted so far
	load   time.Duration // usual duration of a load, or 0 if unknown

	// The following fields are recomputed by renew.
	waiting   []*Model // models that have waiting calls and no place, next first
	residents []*Model // models with a place, least recently used first
	yielding  []*Model // residents that get no new calls because other models wait
	idle      int      // number of residents at the front of residents that can be evicted
}

// New returns a gate for an engine that keeps places models loaded.
func New(places int) *Gate { return &Gate{places: max(1, places), models: map[string]*Model{}} }

// Model holds one model's state at a gate.
type Model struct {
	gate *Gate
	name string

	// The gate's lock guards the following fields.
	absent   bool // the engine does not currently serve the model, so its calls do not get a turn
	resident bool
	cold     bool      // the model is resident, but no call has shown yet that it is loaded
	changed  time.Time // when the model got or lost its place
	used     uint64    // sequence number of the model's last call
	endedAt  time.Time // when the model's last call ended
	running  int
	waiters  int
	since    time.Time // since when the model has waited for a turn
	offered  time.Time // when this turn was first offered, or zero
	forfeit  time.Time // after the model leaves a turn unused, it is skipped until this time
}

// Model returns the state of a model. Until Keep removes the model, the same name returns the same
// *Model.
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

// Keep removes models that are not in names, unless they have a place or waiting calls.
func (g *Gate) Keep(names []string) {
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

// Passes reports whether a call for the model may be sent now, and whether the engine would have to
// load the model.
func (m *Model) Passes(now time.Time) (ok, cold bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renew(now)
	return g.passes(m), !m.resident
}

// Enter admits a call for the model. ok reports whether the call may be sent. If so, the caller
// must call Leave when the call ends. opens reports whether waiting calls of another model may now
// be sent, because this call makes an idle model the next to be evicted.
func (m *Model) Enter(now time.Time) (ok, opens bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renew(now)
	if !g.passes(m) {
		return false, false
	}
	if !m.resident {
		g.place(m, now)
	}
	m.running++
	g.calls++
	m.used, m.offered, m.forfeit = g.calls, time.Time{}, time.Time{}
	before := g.available()
	g.renew(now)
	return true, g.available() > before
}

// Leave ends an admitted call. On a nil model it does nothing.
func (m *Model) Leave(now time.Time) {
	if m == nil {
		return
	}
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.running--
	m.endedAt = now
}

// Cold reports whether the model may not be loaded yet.
func (m *Model) Cold() bool {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	return !m.resident || m.cold
}

// Loaded records that a cold model has responded. took is the time since the request was sent, or 0
// if unknown.
func (m *Model) Loaded(took time.Duration) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	if !m.cold {
		return
	}
	m.cold = false
	switch {
	case took <= 0:
	case g.load == 0:
		g.load = took
	default:
		g.load = (g.load + took) / 2
	}
}

// Wait registers a waiting call for the model. The caller must call Quit when the wait ends. opens
// reports whether registering the call made the turns admit the model, so that its calls may now be
// sent.
func (m *Model) Wait(now time.Time) (opens bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renew(now)
	before := g.passes(m)
	if m.waiters++; m.waiters == 1 {
		m.since = now
	}
	m.forfeit = time.Time{}
	g.renew(now)
	return !before && g.passes(m)
}

// Quit ends a call's wait, and reports whether it was the model's last waiting call. If a turn was
// offered, claimTime starts again for the next waiting call.
func (m *Model) Quit() (last bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.waiters--
	m.offered = time.Time{}
	return m.waiters == 0
}

// SetAbsent records whether the engine lacks the model. Calls for an absent model get no turn.
func (m *Model) SetAbsent(absent bool) {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	m.absent = absent
}

// SetPlaces changes the number of models that the engine keeps. Surplus models keep their places
// until other models need them.
func (g *Gate) SetPlaces(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places = max(1, n)
}

// Observe updates the resident models from the engine's list of loaded models. begun is when the
// edge started to read the list. Observe skips models that have running calls or whose place has
// changed since begun. It reports whether a place has changed.
func (g *Gate) Observe(loaded func(name string) (loaded, ok bool), begun time.Time) (changed bool) {
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
		if !m.resident && residents < g.places && m.changed.Before(begun) {
			if is, ok := loaded(m.name); ok && is {
				m.resident, m.changed, m.cold = true, begun, false
				residents++
				changed = true
			}
		}
	}
	return changed
}

// NextChange returns how long until the turns may change without any call. ok is false if they will
// not change.
func (g *Gate) NextChange(now time.Time) (in time.Duration, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renew(now)
	soonest := time.Time{}
	at := func(t time.Time) {
		if t.After(now) && (soonest.IsZero() || t.Before(soonest)) {
			soonest = t
		}
	}
	for _, m := range g.order {
		switch {
		case m.waiters == 0, m.absent:
		case m.forfeit.After(now):
			at(m.forfeit)
		case !m.offered.IsZero():
			at(m.offered.Add(claimTime))
		}
	}
	if len(g.waiting) > 0 {
		for _, m := range g.order {
			if m.resident && m.running == 0 {
				at(m.endedAt.Add(g.hold()))
				at(m.changed.Add(g.share()))
			}
		}
	}
	return soonest.Sub(now), !soonest.IsZero()
}

// Resident is a model that has a place or waits for one.
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
	s := &Snapshot{Places: g.places, LoadSeconds: g.load.Seconds()}
	for _, m := range g.order {
		if m.changed.IsZero() && m.waiters == 0 {
			continue
		}
		r := Resident{Model: m.name, Resident: m.resident, Loading: m.loading(), Running: m.running, Waiting: m.waiters}
		if !m.changed.IsZero() {
			r.Seconds = now.Sub(m.changed).Seconds()
		}
		s.Models = append(s.Models, r)
	}
	return s
}

// Loading reports whether the engine may be loading a model.
func (g *Gate) Loading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.order, (*Model).loading)
}

func (m *Model) loading() bool { return m.resident && m.cold && m.running > 0 }

func (g *Gate) share() time.Duration { return min(max(shareLoads*g.load, shareMin), shareMax) }

// hold returns how long an idle model keeps its place.
func (g *Gate) hold() time.Duration { return min(g.load, holdMax) }

// renew updates the turns. The caller holds mu.
func (g *Gate) renew(now time.Time) {
	g.waiting, g.residents, g.yielding = g.waiting[:0], g.residents[:0], g.yielding[:0]
	for _, m := range g.order {
		m.expire(now)
		switch {
		case m.resident:
			g.residents = append(g.residents, m)
		case m.waiters > 0 && !m.absent && !m.forfeit.After(now):
			g.waiting = append(g.waiting, m)
		}
	}
	slices.SortStableFunc(g.waiting, func(a, b *Model) int { return a.since.Compare(b.since) })
	// Engines evict the least recently used model, and some do so even if that model has running
	// requests. A place can therefore be taken away only if its model is the next in that order and
	// all of the edge's calls for the model have ended.
	slices.SortStableFunc(g.residents, func(a, b *Model) int { return cmp.Compare(a.used, b.used) })
	g.idle = 0
	for g.idle < len(g.residents) && g.evictable(g.residents[g.idle], now) {
		g.idle++
	}
	wanted := len(g.waiting) - max(0, g.places-len(g.residents))
	for i, m := range g.residents {
		if len(g.yielding) < wanted && (i < g.idle || now.Sub(m.changed) >= g.share()) {
			g.yielding = append(g.yielding, m)
		}
	}
	for i, m := range g.waiting {
		if i < g.available() && m.offered.IsZero() {
			m.offered = now
		}
	}
}

func (g *Gate) available() int { return g.places - len(g.residents) + g.idle }

// evictable reports whether a resident has no running calls, and is idle or has had its share.
func (g *Gate) evictable(m *Model, now time.Time) bool {
	return m.running == 0 &&
		(now.Sub(m.changed) >= g.share() || m.waiters == 0 && now.Sub(m.endedAt) >= g.hold())
}

func (m *Model) expire(now time.Time) {
	if !m.offered.IsZero() && now.Sub(m.offered) >= claimTime {
		m.offered, m.forfeit, m.since = time.Time{}, now.Add(forfeitTime), now
	}
}

// passes reports whether a call for m may be sent. The caller must have called renew before.
func (g *Gate) passes(m *Model) bool {
	if m.resident {
		return !slices.Contains(g.yielding, m)
	}
	turn := slices.Index(g.waiting, m)
	if turn < 0 {
		turn = len(g.waiting)
	}
	return turn < g.available()
}

// place gives m a free place, or takes the place of the least recently used model. The caller must
// have called passes before.
func (g *Gate) place(m *Model, now time.Time) {
	for i := 0; i < g.idle && len(g.residents)-i >= g.places; i++ {
		g.residents[i].evict(now)
	}
	m.resident, m.cold, m.changed = true, true, now
}

// evict takes the model's place away. Calls for this model then wait for a turn.
func (m *Model) evict(now time.Time) {
	m.resident, m.cold, m.changed, m.since, m.offered = false, false, now, now, time.Time{}
}
