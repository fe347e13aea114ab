package upstreams

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"
)

// Load is a snapshot of one pool's load at an upstream.
type Load struct {
	Active int // this edge's leases plus Elsewhere; all pools if they share the limit
	// Occupied slots: Active (without Elsewhere if there is a FleetSlotAccount), or Limit if busy.
	Taken  int
	Others int     // requests of the engine's other clients, from its last fresh report
	Usual  float64 // average of Others over othersAverageTime, used for routing
	// Elsewhere is the number of calls that the fleet's other edges have reported.
	Elsewhere int
	Limit     int     // number of slots, minus ghosts
	Places    int     // concurrently running calls: Limit, or less if the engine queues calls
	Tokens    int64   // prompt tokens of this edge's leases, without tokens that are probably cached
	Unread    int64   // prompt tokens of calls that have not received their first token
	Reading   float64 // estimated seconds for which the engine has been reading the oldest of these prompts
	Penalty   float64 // load for recent failures and the slow start, in calls
	Share     float64 // weight of one call: 1/(Places × Weight)
	Weight    float64 // as configured or discovered
}

// ReadLoad stores a pool's load in l. It reads only atomics and does not allocate. Routing reads
// dozens of upstreams per call and reuses one Load variable, because copying a Load would double
// the cost of each read.
func (u *Upstream) ReadLoad(l *Load, p SlotPool, now Moment) {
	c, word := u.slots.limits.Load(), u.slots.inUse.Load()
	l.Active, l.Limit, l.Places, l.Share, l.Elsewhere = c.countPoolCalls(word, p), c.netSlots[p], c.places[p], c.share[p], 0
	l.Weight, l.Unread, l.Reading = c.weight, u.slots.unreadTokens.Load(), max(0, time.Duration(int64(now)-u.slots.promptStart.Load()).Seconds())
	l.Taken = l.Active
	l.Tokens = u.slots.tokens[p].Load()
	if c.Shared {
		l.Tokens = u.slots.tokens[PoolText].Load() + u.slots.tokens[PoolVision].Load() + u.slots.tokens[PoolAudio].Load()
	}
	l.Others, l.Usual = u.reports.otherRequests(now)
	if v := u.slots.fleet.others.Load(); v != nil {
		v.addToLoad(l, c, p, u.slots.fleet.placed.Load())
	}
	if u.Health.currentState() == StateBusy {
		l.Taken = max(l.Taken, l.Limit)
	}
	l.Penalty = u.penalty.valueAt(now)
	if at := u.Health.cameUpAt.Load(); at != 0 {
		l.Penalty += slowStartLoad(int64(now)-at, l.Limit)
	}
}

// penalty counts failures and refusals as load, so that an upstream that fails fast does not look
// idle.
type penalty struct{ current atomic.Pointer[decayingValue] }

// decayingValue is a quantity that halves every halfLife.
type decayingValue struct {
	value float64
	since Moment
}

// halfLife is chosen so that a failure counts about as much as a call that takes a few seconds.
const halfLife = 5 * time.Second

// maxPenalty is the maximum penalty, in calls. After an outage under load, a higher penalty would
// keep calls away from a recovered upstream for a minute.
const maxPenalty = 64

// penaltyLifetime is the age at which a penalty counts as zero. It is then below 0.002 calls.
const penaltyLifetime = Moment(15 * halfLife)

func (d *decayingValue) valueAt(now Moment) float64 {
	if d == nil || now-d.since > penaltyLifetime {
		return 0
	}
	return d.value * math.Exp2(-float64(max(0, now-d.since))/float64(halfLife))
}

func (p *penalty) valueAt(now Moment) float64 {
	if d := p.current.Load(); d != nil {
		return d.valueAt(now)
	}
	return 0
}

func (p *penalty) addFailure(now Moment) {
	for {
		old := p.current.Load()
		if p.current.CompareAndSwap(old, &decayingValue{min(maxPenalty, old.valueAt(now)+1), now}) {
			return
		}
	}
}

func (p *penalty) clear() { p.current.Store(nil) }

// After an upstream has come up again, a quarter of its slots count as taken. This share falls to
// zero over slowStartTime, so the upstream gradually gets more calls. The limit is unaffected, so
// all slots of a route's only upstream can be used.
const (
	slowStartTime  = 3 * time.Second
	slowStartShare = 0.25
)

func slowStartLoad(since int64, limit int) float64 {
	left := 1 - float64(since)/float64(slowStartTime)
	return min(1, max(0, left)) * slowStartShare * float64(limit)
}

// EdgeWork is the work of one or more edges at an upstream.
type EdgeWork struct {
	InFlight [poolCount]int // calls by pool
	Down     bool           // at least one of the edges reports the upstream as down
}

// LocalWork is the work of this edge at an upstream.
type LocalWork struct {
	ID       ID
	Upstream *Upstream
	Work     EdgeWork
	// Placed counts the calls that this edge has sent to the upstream since joining the fleet. It
	// excludes calls whose conversation already had turns at the upstream.
	Placed int64
}

// LocalWork appends this edge's work at every upstream to dst. The edge reports this work to the
// fleet's other edges.
func (s *Set) LocalWork(dst []LocalWork) []LocalWork {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.byID {
		h := LocalWork{ID: u.identity.id, Upstream: u, Placed: u.slots.fleet.placed.Load()}
		h.Work.Down = u.Health.currentState() == StateDown
		word := u.slots.inUse.Load()
		for p := range poolCount {
			h.Work.InFlight[p] = callsInPool(word, p)
		}
		dst = append(dst, h)
	}
	return dst
}

// OtherEdgesWork is the work that the other edges of the fleet have reported.
type OtherEdgesWork struct {
	Edges int // live edges, including this one
	Works map[ID]EdgeWork
	// Placed contains this edge's LocalWork.Placed for each upstream, as of the report.
	Placed map[ID]int64
}

// SetOtherEdges makes every upstream count the work of other edges, so that all edges enforce a
// common limit. If another edge newly reports that an upstream is down, SetOtherEdges requests an
// immediate probe of that upstream. The report alone does not take the upstream down.
func (s *Set) SetOtherEdges(e *OtherEdgesWork) {
	for _, u := range s.All() {
		v := &otherEdges{EdgeWork: e.Works[u.identity.id], edges: e.Edges, placed: e.Placed[u.identity.id]}
		before := u.slots.setOtherEdges(v, 0)
		if v.Down && (before == nil || !before.Down) && u.Health.currentState() == StateUp && u.Mode() != ModeMaintenance {
			u.probeControl.probeNow()
		}
		if before != nil && v.hasFewerCalls(before) {
			u.hooks.wakeWaiting()
		}
	}
}

// DivideSlots undoes SetOtherEdges. It divides each limit by the given number of edges, and this
// edge uses one part.
func (s *Set) DivideSlots(edges int) {
	for _, u := range s.All() {
		u.slots.setOtherEdges(nil, edges)
	}
}

// IsDownElsewhere reports whether another edge of the fleet reports the upstream as down.
func IsDownElsewhere(u *Upstream) bool {
	v := u.slots.fleet.others.Load()
	return v != nil && v.Down
}

// otherEdges is the reported work of other edges at one upstream. It is immutable.
type otherEdges struct {
	EdgeWork
	edges  int
	placed int64 // fleetSlots.placed at the time of the report
}

// inFlight returns the number of calls that count against the pool's limit.
func (v *otherEdges) inFlight(p SlotPool, shared bool) int {
	if v == nil {
		return 0
	}
	if shared {
		return v.InFlight[PoolText] + v.InFlight[PoolVision] + v.InFlight[PoolAudio]
	}
	return v.InFlight[p]
}

// hasFewerCalls reports whether v has fewer calls in any pool than before.
func (v *otherEdges) hasFewerCalls(before *otherEdges) bool {
	for p := range poolCount {
		if v.InFlight[p] < before.InFlight[p] {
			return true
		}
	}
	return false
}

// FleetSlotAccount counts exactly how many calls all edges of a fleet have at an upstream. It is safe
// for concurrent use.
type FleetSlotAccount interface {
	// AcquireSlot acquires a slot if fewer than limit slots are in use. It may block on the fleet's
	// store.
	AcquireSlot(limit int, now time.Time) bool
	ReleaseSlot()
}

// fleetSlots is the part of an upstream's slot state that depends on other edges.
type fleetSlots struct {
	others       atomic.Pointer[otherEdges] // nil if unknown; each edge then uses a part of the slots
	edges        atomic.Int64               // number of edges that share the slots; 0: as configured
	placed       atomic.Int64               // see LocalWork.Placed
	accountSlots atomic.Int64               // number of slots acquired from the account
	account      atomic.Pointer[FleetSlotAccount]
}

// takeFromAccount acquires a slot from the account. If there is no account, it returns true.
func (f *fleetSlots) takeFromAccount(c *slotCapacity) bool {
	a := f.account.Load()
	if a == nil {
		return true
	}
	if !(*a).AcquireSlot(c.Text, time.Now()) {
		return false
	}
	f.accountSlots.Add(1)
	return true
}

// returnToAccount releases a slot of the account. A reload may have switched the account on or off
// since the slot was acquired, so accountSlots counts the slots that were acquired from the
// account.
func (f *fleetSlots) returnToAccount() {
	for n := f.accountSlots.Load(); n > 0; n = f.accountSlots.Load() {
		if f.accountSlots.CompareAndSwap(n, n-1) {
			(*f.account.Load()).ReleaseSlot()
			return
		}
	}
}

// setOtherEdges stores the reported work of other edges, or how many edges share the slots if v is
// nil. It returns the previous work.
func (s *slots) setOtherEdges(v *otherEdges, edges int) (before *otherEdges) {
	before = s.fleet.others.Swap(v)
	if others := s.fleet.edges.Swap(int64(edges)); (before == nil) != (v == nil) || others != int64(edges) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.updateLimits()
	}
	return before
}

// slotDivisor returns the number of edges that share the slots. If the work of the other edges is
// known or an account counts the slots, it returns 1: each edge may then use all slots that the
// other edges leave free. Otherwise it returns the number of live edges or, if that is unknown,
// the configured number. The caller must hold mu.
func (s *slots) slotDivisor(l Limits, configured int) int {
	if l.Exact || s.fleet.others.Load() != nil {
		return 1
	}
	return cmp.Or(int(s.fleet.edges.Load()), configured)
}

// addToLoad adds the work of other edges to the load l.
func (v *otherEdges) addToLoad(l *Load, c *slotCapacity, p SlotPool, placed int64) {
	if v == nil {
		return
	}
	l.Elsewhere = v.inFlight(p, c.Shared)
	l.Active += l.Elsewhere
	if !c.Exact {
		l.Taken = l.Active
	}
	// All edges see the same numbers. Until the next report, assume that each of the other edges
	// sends as many calls as this edge.
	l.Usual += float64(placed-v.placed) * float64(v.edges-1)
}
