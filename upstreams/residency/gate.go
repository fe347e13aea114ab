package residency

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

const (
	// A fair share is shareLoads times as long as a load takes, between shareMin and shareMax, so
	// that loads take at most about a tenth of the time.
	shareLoads = 10
	shareMin   = 2 * time.Second
	shareMax   = 2 * time.Minute
	// holdMax is the maximum time for which an idle model keeps its place, for its next call, while
	// other models wait.
	holdMax = 2 * time.Second
	// claimTime is the time for which a place is reserved for the model whose turn it is.
	claimTime = time.Second
	// forfeitTime is the time for which a model that did not take its turn is skipped.
	forfeitTime = 5 * time.Second
)

// Gate manages one engine's places for models. Its methods may be called from any goroutine.
type Gate struct {
	mu     sync.Mutex
	places int
	models map[string]*Model
	order  []*Model      // by name, so that ties are decided the same way each time
	calls  uint64        // calls that have entered
	load   time.Duration // usual duration of a load; 0: none has been seen

	// renew recomputes the following fields.
	waiting   []*Model // models without a place but with waiting calls, the next one first
	residents []*Model // models with a place, the least recently used one first
	yielding  []*Model // residents that take no call, because other models wait
	idle      int      // residents at the front whose places may be taken
}

// New returns a gate for an engine that keeps this many models loaded. Calls may ask for any of its
// models.
func New(places int) *Gate { return &Gate{places: max(1, places), models: map[string]*Model{}} }

// Model holds one model's state at a gate.
type Model struct {
	gate *Gate
	name string

	// The gate's lock guards the following fields.
	absent   bool // the engine lacks the model now, so its calls wait for no turn
	resident bool
	cold     bool      // resident, but not yet shown to be loaded by a call
	changed  time.Time // when the model got or lost its place
	used     uint64    // the number of its last call
	endedAt  time.Time // when its last call ended
	running  int
	waiters  int
	since    time.Time // since when the model waits for its turn
	offered  time.Time // when this turn was first offered; zero: not yet
	forfeit  time.Time // skipped until then, after an unused turn
}

// Model returns a model's state. For the same name it returns the same state until Keep removes
// that state.
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

// Keep removes models that are not in names and have neither a place nor waiting calls.
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

// Passes reports whether a call for the model may be sent now, and whether the engine would first
// have to load the model.
func (m *Model) Passes(now time.Time) (ok, cold bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	g.renew(now)
	return g.passes(m), !m.resident
}

// Enter starts a call for the model. ok says whether the call may be sent. Call Leave when the call
// has ended. opens says whether waiting calls for another model may now be sent, because the engine
// uses this model and will evict an idle model next.
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

// Leave ends a call that has entered. On a nil model it does nothing.
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

// Cold reports whether no call has yet shown that the model is loaded.
func (m *Model) Cold() bool {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	return !m.resident || m.cold
}

// Loaded records that a cold model has answered. took is the time since the request (0: unknown).
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

// Wait counts a call that waits for the model. Call Quit when it stops waiting. Wait reports
// whether calls for the model may now be sent: the model was skipped until now, or another model
// started to wait at the same moment.
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

// Quit ends a call's wait, and reports whether no other call waits for the model. If the model's
// turn had been offered, claimTime starts over for the next call.
func (m *Model) Quit() (last bool) {
	g := m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	m.waiters--
	m.offered = time.Time{}
	return m.waiters == 0
}

// SetAbsent sets whether the engine lacks the model. Calls for an absent model get no turn.
func (m *Model) SetAbsent(absent bool) {
	m.gate.mu.Lock()
	defer m.gate.mu.Unlock()
	m.absent = absent
}

// SetPlaces changes the number of models that the engine keeps. Surplus models keep their places
// until other models want them.
func (g *Gate) SetPlaces(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.places = max(1, n)
}

// Observe corrects which models are resident from the engine's list of loaded models. begun is the
// time at which the edge started to read the list. Observe skips models with a running call, and
// models that have got or lost their place since begun. It reports whether a model has got or lost
// a place.
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

// NextChange returns the time until the turns may change by time alone. ok is false if they will
// not.
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

// Resident is one model that has a place, or waits for one.
type Resident struct {
	Model    string  `json:"model"`
	Resident bool    `json:"resident"`
	Loading  bool    `json:"loading"`
	Running  int     `json:"running"`
	Waiting  int     `json:"waiting"`
	Seconds  float64 `json:"seconds"` // time since it got or lost its place
}

// Snapshot is a gate's state at one moment.
type Snapshot struct {
	Places      int        `json:"places"`
	LoadSeconds float64    `json:"load_seconds"` // usual duration of a load; 0: none has been seen
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

// Loading reports whether the engine was asked for a model that no call has yet shown to be
// loaded.
func (g *Gate) Loading() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.ContainsFunc(g.order, (*Model).loading)
}

func (m *Model) loading() bool { return m.resident && m.cold && m.running > 0 }

// share returns a model's fair share.
func (g *Gate) share() time.Duration { return min(max(shareLoads*g.load, shareMin), shareMax) }

// hold returns the time for which an idle model keeps its place for its next call.
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
	// Engines evict the least recently used model, and some engines do so even if that model has
	// work. So a place can be taken only if its model is next in that order and this edge's calls
	// of that model have ended.
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

// available returns the number of places that are free or may be taken away.
func (g *Gate) available() int { return g.places - len(g.residents) + g.idle }

// evictable reports whether a resident has no work and will get none soon, or has had its share.
func (g *Gate) evictable(m *Model, now time.Time) bool {
	return m.running == 0 &&
		(now.Sub(m.changed) >= g.share() || m.waiters == 0 && now.Sub(m.endedAt) >= g.hold())
}

// expire forfeits an unused turn.
func (m *Model) expire(now time.Time) {
	if !m.offered.IsZero() && now.Sub(m.offered) >= claimTime {
		m.offered, m.forfeit, m.since = time.Time{}, now.Add(forfeitTime), now
	}
}

// passes reports whether a call for m may be sent. The caller has called renew.
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

// place gives m a place: a free place, or the place of the least recently used model. passes() must
// have returned true.
func (g *Gate) place(m *Model, now time.Time) {
	for i := 0; i < g.idle && len(g.residents)-i >= g.places; i++ {
		g.residents[i].evict(now)
	}
	m.resident, m.cold, m.changed = true, true, now
}

// evict takes the place away. Calls that wait for the model start waiting for their turn.
func (m *Model) evict(now time.Time) {
	m.resident, m.cold, m.changed, m.since, m.offered = false, false, now, now, time.Time{}
}
