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
)

// Member is what an edge says of itself with every heartbeat.
type Member struct {
	Name     string `json:"name"` // of its machine
	Version  string `json:"version"`
	Config   string `json:"config"` // digest of the configuration in force
	Started  int64  `json:"started"`
	InFlight int    `json:"in_flight"`

	// Of an edge of a version before these were told they are empty.
	Generation uint64 `json:"generation,omitempty"` // of its configuration
	Calls      uint64 `json:"calls,omitempty"`      // that have ended since its start
	Level      string `json:"level,omitempty"`      // of its verdict, as its status page has it
	Verdict    string `json:"verdict,omitempty"`
	Self       bool   `json:"self,omitempty"`
	ID         string `json:"id"`
}

// heartbeat is how often an edge shows itself, and how long it waits for the answer.
const heartbeat = time.Second

// Heartbeats shows this edge to the others until ctx ends. Where the store does not answer this is
// also the only thing that asks it again.
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

// beatNow has a heartbeat sent at once. It ends a breaker that a moment's silence has opened.
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
	said, err := json.Marshal(m)
	if err != nil {
		panic("BUG: a member cannot be written: " + err.Error())
	}
	all, known, err := f.terms.store.Heartbeat(ctx, f.terms.edge, string(said))
	f.refused.Store(refusedBy(err) != "")
	f.late.Store(errors.Is(err, errLate))
	if err == nil || f.late.Load() {
		f.terms.heard.Store(int64(f.terms.now()))
		before := f.terms.seen.Load()
		f.meet(all)
		now := f.terms.now()
		if !known && before > 0 { // the store has lost the others, too: they show themselves again
			f.edgesBefore, f.edgesUntil = before, now+lease
		}
		if now < f.edgesUntil {
			f.terms.seen.Store(max(f.terms.seen.Load(), f.edgesBefore))
		}
		if !known {
			f.remind()
			f.forgotten.Add(1)
		}
	}
	// the first heartbeat is told of when it fails, although it changes nothing
	up, told := f.terms.store.Available(), f.told.Swap(true)
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

// checkEviction warns of a store that may drop accounts when its memory is full: a limit would
// begin anew.
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
	lost := zap.String("lost", f.terms.whenLost)
	code := refusedBy(err)
	switch {
	case code != "":
		f.log.Warn("the fleet's store refuses this edge: limits are held without it", lost, zap.Error(err), zap.String("remedy", remedyOf(code, f.prefix)))
		return
	case errors.Is(err, errLate):
		f.log.Warn("the fleet's store answers too late: limits are held without it", lost, zap.Stringer("fleet.store.timeout", f.terms.timeout),
			zap.String("remedy", "have the store nearer to the edges or with less to do, or raise fleet.store.timeout"))
		return
	}
	f.log.Warn("the fleet's store does not answer: limits are held without it", lost, zap.Error(err))
}

// meet takes over who is alive. What another edge writes is read with care: it may be another
// version.
func (f *Fleet) meet(all []string) {
	members := make([]Member, 0, len(all))
	for _, said := range all {
		var m Member
		if json.Unmarshal([]byte(said), &m) == nil && m.ID != "" {
			m.Self = m.ID == f.terms.edge
			members = append(members, m)
		}
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	f.members.Store(&members)
	f.terms.seen.Store(int64(len(members)))
}

// Members returns the edges that were alive at the last heartbeat, by name.
func (f *Fleet) Members() []Member {
	if m := f.members.Load(); m != nil {
		return *m
	}
	return nil
}

// State is the fleet as this edge sees it.
type State struct {
	StoreAnswers bool     `json:"store_answers"`
	StoreRefuses bool     `json:"store_refuses,omitempty"` // it is there, and refuses this edge
	StoreLate    bool     `json:"store_late,omitempty"`    // it answers, later than calls wait
	WhenLost     string   `json:"when_lost"`
	Members      []Member `json:"members"`
}

// State returns the state of the fleet; nil without one.
func (f *Fleet) State() *State {
	if f == nil {
		return nil
	}
	return &State{
		StoreAnswers: f.Available(), StoreRefuses: f.refused.Load(), StoreLate: f.late.Load(),
		WhenLost: f.terms.whenLost, Members: f.Members(),
	}
}

// Configurations returns how many configurations the members have.
func (s *State) Configurations() int {
	seen := map[string]bool{}
	for i := range s.Members {
		seen[s.Members[i].Config] = true
	}
	return len(seen)
}

// Trouble says what is wrong with the fleet, or nothing.
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
