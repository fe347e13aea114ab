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

	// The fields below are zero if the entry was sent by an edge running an older version.
	Generation uint64 `json:"generation,omitempty"`
	// Number of calls that have ended since the process started.
	Calls   uint64 `json:"calls,omitempty"`
	Level   string `json:"level,omitempty"` // level of the verdict, as shown on the status page
	Verdict string `json:"verdict,omitempty"`
	Self    bool   `json:"self,omitempty"`
	ID      string `json:"id"`
	Expires int64  `json:"expires,omitempty"` // expiry of the entry, in ms of the store's clock
}

// maxMembers is the maximum number of members. An edge ignores all other entries in the store.
const maxMembers = 256

// storeClockReading is the time on the store's clock at the last heartbeat. Only the goroutine that runs
// RunHeartbeats uses it.
type storeClockReading struct {
	storeMillis int64 // in milliseconds; 0 if no heartbeat has been answered yet
	takenAt     time.Duration
}

func (t *storeClockReading) storeMillisAt(own time.Duration) int64 {
	return t.storeMillis + (own - t.takenAt).Milliseconds()
}

const heartbeatInterval = time.Second

// RunHeartbeats announces this edge to the other edges until ctx is done. While the store does not
// answer, the edge sends it only heartbeats.
func (f *Fleet) RunHeartbeats(ctx context.Context) {
	tick := time.NewTicker(heartbeatInterval)
	defer tick.Stop()
	for {
		f.sendHeartbeat(ctx)
		select {
		case <-tick.C:
		case <-f.heartbeatNow:
		case <-ctx.Done():
			return
		}
	}
}

func requestHeartbeat(f *Fleet) {
	select {
	case f.heartbeatNow <- struct{}{}:
	default:
	}
}

func (f *Fleet) sendHeartbeat(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, heartbeatInterval/2)
	defer cancel()
	m := f.selfMember()
	m.ID = f.edgeState.edgeID
	// The store's clock is unknown at the first heartbeat, so other edges list this edge only after
	// its second heartbeat.
	if f.storeTime.storeMillis > 0 {
		m.Expires = f.storeTime.storeMillisAt(f.edgeState.now()) + 2*leaseTime.Milliseconds()
	}
	unheard := f.heartbeatLost || !f.edgeState.store.Available()
	a, err := f.edgeState.store.Heartbeat(ctx, f.edgeState.edgeID, f.signer.Sign(sign.KindMember, m.ID, m))
	f.storeRefuses.Store(heartbeatRefusalCode(err) != "")
	f.storeLate.Store(errors.Is(err, errLateAnswer))
	answered := err == nil || f.storeLate.Load()
	if answered {
		before := f.edgeState.seenEdges.Load()
		now := f.edgeState.now()
		f.storeTime = storeClockReading{int64(a.storeMicros / 1000), now}
		f.edgeState.lastHeartbeat.Store(int64(now))
		f.setMembers(a.entries)
		// The store has also lost the entries of the other edges. The other edges will announce
		// themselves again.
		if !a.edgeKnown && before > 0 {
			f.edgesBeforeLoss, f.edgesBeforeLossUntil = before, now+leaseTime
		}
		if now < f.edgesBeforeLossUntil {
			f.edgeState.seenEdges.Store(max(f.edgeState.seenEdges.Load(), f.edgesBeforeLoss))
		}
		if !a.edgeKnown {
			f.resendReservations()
		}
		if a.birth != f.birth {
			f.birth = a.birth
			f.dataLosses.Add(1)
		}
	}
	// If the first heartbeat fails, this is logged even though the state does not change.
	up, told := f.edgeState.store.Available(), f.stateLogged.Swap(true)
	if f.heartbeatLost = !answered || unheard && !up; unheard && !f.heartbeatLost && told {
		f.storeReturns.Add(1)
	}
	if was := f.loggedUp.Swap(up); was != up || !told && err != nil {
		if up && told {
			f.edgeState.storeReturned.Store(int64(f.edgeState.now()))
		}
		f.logStoreState(up, err)
		if up {
			f.checkEviction(ctx)
		}
	}
}

// checkEviction logs a warning if the store may evict accounts when its memory is full. An evicted
// account would start at zero.
func (f *Fleet) checkEviction(ctx context.Context) {
	if p := f.edgeState.store.EvictionPolicy(ctx); p != "" && p != "noeviction" {
		f.log.Warn("the fleet's store may forget limits when its memory is full",
			zap.String("maxmemory-policy", p), zap.String("remedy", "set maxmemory-policy to noeviction"))
	}
}

func (f *Fleet) logStoreState(up bool, err error) {
	if up {
		f.log.Info("the fleet's store answers: limits are shared", zap.Int("members", len(f.Members())))
		return
	}
	if f.edgeState.isEdgeCountUnknown() {
		f.log.Warn("this edge knows no other edge of its fleet: it takes half of each limit and of each engine's slots until the store answers",
			zap.String("remedy", "write fleet.edges: N, the number of edges"))
	}
	lost := zap.String("lost", f.edgeState.lostPolicy)
	code := heartbeatRefusalCode(err)
	switch {
	case code != "":
		f.log.Warn("the fleet's store refuses this edge: limits are held without it", lost, zap.Error(err), zap.String("remedy", rejectionRemedy(code, f.prefix)))
		return
	case errors.Is(err, errLateAnswer):
		f.log.Warn("the fleet's store answers too late: limits are held without it", lost, zap.Stringer("fleet.store.timeout", f.edgeState.timeout),
			zap.String("remedy", "move the store closer to the edges, reduce its load, or raise fleet.store.timeout"))
		return
	}
	f.log.Warn("the fleet's store does not answer: limits are held without it", lost, zap.Error(err))
}

// setMembers records the live edges. It validates each entry, because it may have been written by
// another program or by an edge with a different version.
func (f *Fleet) setMembers(all []string) {
	members, ignored := make([]Member, 0, min(len(all), maxMembers)), 0
	seen := map[string]bool{}
	for _, said := range all {
		var m Member
		switch {
		case json.Unmarshal([]byte(said), &m) != nil || m.ID == "" || seen[m.ID]:
			continue
		case m.ID == f.edgeState.edgeID:
			m.Self = true
		case m.Expires == 0 && f.signer.IsSigned(sign.KindMember, m.ID, said): // an edge's first heartbeat
			continue
		case len(members) >= maxMembers-1 || !f.isValidMember(&m, said): // the last member is this edge
			ignored++
			continue
		}
		seen[m.ID] = true
		members = append(members, m)
	}
	if f.ignoredMembers.Swap(ignored > 0) != (ignored > 0) && ignored > 0 {
		f.log.Warn("members in the fleet's store are ignored: they are too many, or not signed with one of this edge's fleet.secrets",
			zap.Int("members", ignored), zap.String("remedy", "give all edges the same fleet.secrets, and let nothing else write to the store"))
	}
	slices.SortFunc(members, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID))
	})
	f.members.Store(&members)
	f.edgeState.seenEdges.Store(int64(len(members)))
}

// isValidMember reports whether a member's entry is valid, which means that an edge of the fleet
// has signed it and it has not expired.
func (f *Fleet) isValidMember(m *Member, said string) bool {
	if f.signer.IsSigned(sign.KindMember, m.ID, said) {
		return m.Expires >= f.storeTime.storeMillis
	}
	return f.signer.IsAccepted(sign.KindMember, m.ID, said, f.edgeState.clock())
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
		StoreAnswers: f.Available(), StoreRefuses: f.storeRefuses.Load(), StoreLate: f.storeLate.Load(),
		WhenLost: f.edgeState.lostPolicy, Members: f.Members(),
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

// StoreProblem describes the problem with the store. If the store answers, StoreProblem returns "".
func (s *State) StoreProblem() string {
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
		config.StoreLostDivide: "each edge allows its part of the limits", config.StoreLostOpen: "no limits of keys are held",
		config.StoreLostClosed: "calls of all keys are refused",
	}[s.WhenLost]
}
