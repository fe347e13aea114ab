package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"penstock/config"
	"penstock/proxy/fleet/sign"
)

// Member is an edge's entry, which the edge sends with every heartbeat.
type Member struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Config   string `json:"config"`
	Started  int64  `json:"started"`
	InFlight int    `json:"in_flight"`

	// The fields below are zero if the entry was sent by an edge with an older version.
	Generation uint64 `json:"generation,omitempty"`
	// Number of calls that have ended since the process started.
	Calls   uint64 `json:"calls,omitempty"`
	Level   string `json:"level,omitempty"` // level of the verdict, as shown on the status page
	Verdict string `json:"verdict,omitempty"`
	Self    bool   `json:"self,omitempty"`
	ID      string `json:"id"`
	Expires int64  `json:"expires,omitempty"` // in milliseconds of the store's clock
}

// membersMost is the maximum number of members. An edge ignores all other entries in the store.
const membersMost = 256

// storeTime is the time on the store's clock at the last heartbeat. Only the goroutine that runs
// Heartbeats uses it.
type storeTime struct {
	reading int64 // in milliseconds; 0 if no heartbeat has been answered yet
	at      time.Duration
}

func (t *storeTime) now(own time.Duration) int64 { return t.reading + (own - t.at).Milliseconds() }

const heartbeat = time.Second

// Heartbeats announces this edge to the other edges until ctx is done. While the store does not
// answer, the edge sends it only heartbeats.
func (f *Fleet) Heartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		f.beat(ctx)
		select {
		case <-tick.C:
		case <-f.ask:
		case <-ctx.Done():
			return
		}
	}
}

func beatNow(f *Fleet) {
	select {
	case f.ask <- struct{}{}:
	default:
	}
}

func (f *Fleet) beat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, heartbeat/2)
	defer cancel()
	m := f.self()
	m.ID = f.terms.edge
	// The store's clock is unknown at the first heartbeat, so other edges list this edge only after
	// its second heartbeat.
	if f.clock.reading > 0 {
		m.Expires = f.clock.now(f.terms.now()) + 2*lease.Milliseconds()
	}
	unheard := f.unheard || !f.terms.store.Available()
	a, err := f.terms.store.Heartbeat(ctx, f.terms.edge, f.signer.Sign(sign.Member, m.ID, m))
	f.refused.Store(refusedBy(err) != "")
	f.late.Store(errors.Is(err, errLate))
	answered := err == nil || f.late.Load()
	if answered {
		before := f.terms.seen.Load()
		now := f.terms.now()
		f.clock = storeTime{int64(a.clock / 1000), now}
		f.terms.lastHeartbeat.Store(int64(now))
		f.meet(a.said)
		// The store has also lost the entries of the other edges. These edges will announce
		// themselves again.
		if !a.known && before > 0 {
			f.edgesBefore, f.edgesUntil = before, now+lease
		}
		if now < f.edgesUntil {
			f.terms.seen.Store(max(f.terms.seen.Load(), f.edgesBefore))
		}
		if !a.known {
			f.remind()
		}
		if a.birth != f.birth {
			f.birth = a.birth
			f.forgotten.Add(1)
		}
	}
	// If the first heartbeat fails, this is logged even though the state does not change.
	up, told := f.terms.store.Available(), f.told.Swap(true)
	if f.unheard = !answered || unheard && !up; unheard && !f.unheard && told {
		f.returned.Add(1)
	}
	if was := f.up.Swap(up); was != up || !told && err != nil {
		if up && told {
			f.terms.back.Store(int64(f.terms.now()))
		}
		f.tell(up, err)
		if up {
			f.checkEviction(ctx)
		}
	}
}

// checkEviction logs a warning if the store may evict accounts when its memory is full. An evicted
// account would start at zero.
func (f *Fleet) checkEviction(ctx context.Context) {
	if p := f.terms.store.Eviction(ctx); p != "" && p != "noeviction" {
		f.log.Warn("the fleet's store may forget limits when its memory is full",
			zap.String("maxmemory-policy", p), zap.String("remedy", "set maxmemory-policy to noeviction"))
	}
}

func (f *Fleet) tell(up bool, err error) {
	if up {
		f.log.Info("the fleet's store answers: limits are shared", zap.Int("members", len(f.Members())))
		return
	}
	if f.terms.edgesUnknown() {
		f.log.Warn("this edge knows no other edge of its fleet: it takes half of each limit and of each engine's slots until the store answers",
			zap.String("remedy", "write fleet.edges: N, the number of edges"))
	}
	lost := zap.String("lost", f.terms.whenLost)
	code := refusedBy(err)
	switch {
	case code != "":
		f.log.Warn("the fleet's store refuses this edge: limits are held without it", lost, zap.Error(err), zap.String("remedy", remedyOf(code, f.prefix)))
		return
	case errors.Is(err, errLate):
		f.log.Warn("the fleet's store answers too late: limits are held without it", lost, zap.Stringer("fleet.store.timeout", f.terms.timeout),
			zap.String("remedy", "move the store closer to the edges, reduce its load, or raise fleet.store.timeout"))
		return
	}
	f.log.Warn("the fleet's store does not answer: limits are held without it", lost, zap.Error(err))
}

// meet records the live edges. It validates each entry, because it may have been written by another
// program or by an edge with a different version.
func (f *Fleet) meet(all []string) {
	members, ignored := make([]Member, 0, min(len(all), membersMost)), 0
	seen := map[string]bool{}
	for _, said := range all {
		var m Member
		switch {
		case json.Unmarshal([]byte(said), &m) != nil || m.ID == "" || seen[m.ID]:
			continue
		case m.ID == f.terms.edge:
			m.Self = true
		case len(members) >= membersMost-1 || !f.counts(&m, said): // the last member is this edge
			ignored++
			continue
		}
		seen[m.ID] = true
		members = append(members, m)
	}
	if f.ignored.Swap(ignored > 0) != (ignored > 0) && ignored > 0 {
		f.log.Warn("members in the fleet's store are ignored: they are too many, or not signed with one of this edge's fleet.secrets",
			zap.Int("members", ignored), zap.String("remedy", "give all edges the same fleet.secrets, and let nothing else write to the store"))
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	f.members.Store(&members)
	f.terms.seen.Store(int64(len(members)))
}

// counts reports whether a member's entry is valid, which means that an edge of the fleet has
// signed it and it has not expired.
func (f *Fleet) counts(m *Member, said string) bool {
	if f.signer.Signed(sign.Member, m.ID, said) {
		return m.Expires >= f.clock.reading
	}
	return f.signer.Counts(sign.Member, m.ID, said, f.terms.clock())
}

// Members returns the edges that were alive at the last heartbeat, sorted by name.
func (f *Fleet) Members() []Member {
	if m := f.members.Load(); m != nil {
		return *m
	}
	return nil
}

// State describes the fleet as seen by this edge.
type State struct {
	StoreAnswers bool `json:"store_answers"`
	// Whether the store answers but rejects this edge's commands.
	StoreRefuses bool `json:"store_refuses,omitempty"`
	// Whether the store answers too late for calls.
	StoreLate bool     `json:"store_late,omitempty"`
	WhenLost  string   `json:"when_lost"`
	Members   []Member `json:"members"`
}

// State returns the state of the fleet. For a nil f, it returns nil.
func (f *Fleet) State() *State {
	if f == nil {
		return nil
	}
	return &State{
		StoreAnswers: f.Available(), StoreRefuses: f.refused.Load(), StoreLate: f.late.Load(),
		WhenLost: f.terms.whenLost, Members: f.Members(),
	}
}

// Configurations returns how many different configurations the members use.
func (s *State) Configurations() int {
	seen := map[string]bool{}
	for i := range s.Members {
		seen[s.Members[i].Config] = true
	}
	return len(seen)
}

// Trouble describes the problem with the store. If the store answers, Trouble returns "".
func (s *State) Trouble() string {
	if s == nil || s.StoreAnswers {
		return ""
	}
	does := "does not answer"
	switch {
	case s.StoreRefuses:
		does = "refuses this edge (the log names the remedy)"
	case s.StoreLate:
		does = "answers too late (the log names the remedy)"
	}
	return "the fleet's store " + does + ", so " + map[string]string{
		config.LostDivide: "each edge allows its part of the limits", config.LostOpen: "no limits of keys are held",
		config.LostClosed: "calls of all keys are refused",
	}[s.WhenLost]
}
