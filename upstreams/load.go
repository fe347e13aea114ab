package upstreams

import (
	"cmp"
	"math"
	"sync/atomic"
	"time"
)

// Load is the load of one pool of one upstream at one moment, as seen by a pick.
type Load struct {
	Active int     // own leases (exact) and Elsewhere; for all pools if they share
	Taken  int     // slots taken: Active, or Limit if busy; Elsewhere only without an account
	Others int     // requests of the engine's other clients, from its last fresh report
	Usual  float64 // average of Others over othersTime, which a pick uses
	// Elsewhere counts the calls that the other edges of a fleet have reported.
	Elsewhere int
	Limit     int     // slots minus those that ghosts hold
	Places    int     // calls that run at once: Limit, or fewer if the engine was seen to queue
	Tokens    int64   // prompt tokens of the own leases, without those probably cached
	Unread    int64   // prompt tokens of calls without a first token yet
	Reading   float64 // estimated seconds since the engine started to read the first of these
	Penalty   float64 // recent failures and the slow start after a return, in calls
	Share     float64 // share of the weighted places for one call: 1/(Places × Weight)
	Weight    float64 // as configured or discovered
}

// ReadLoad sets l to a pool's load. It reads only atomics and does not allocate. A pick reads
// dozens of upstreams and passes its own variable, because copying the result would be half the
// cost of each read.
func (u *Upstream) ReadLoad(l *Load, p Pool, now Moment) {
	c, word := u.slots.limits.Load(), u.slots.inUse.Load()
	l.Active, l.Limit, l.Places, l.Share, l.Elsewhere = c.active(word, p), c.net[p], c.places[p], c.share[p], 0
	l.Weight, l.Unread, l.Reading = c.weight, u.slots.unread.Load(), max(0, time.Duration(int64(now)-u.slots.reads.Load()).Seconds())
	l.Taken = l.Active
	l.Tokens = u.slots.tokens[p].Load()
	if c.Shared {
		l.Tokens = u.slots.tokens[PoolText].Load() + u.slots.tokens[PoolVision].Load() + u.slots.tokens[PoolAudio].Load()
	}
	l.Others, l.Usual = u.reports.others(now)
	if v := u.slots.fleet.elsewhere.Load(); v != nil {
		v.weigh(l, c, p, u.slots.fleet.placed.Load())
	}
	if u.Health.now() == StateBusy {
		l.Taken = max(l.Taken, l.Limit)
	}
	l.Penalty = u.penalty.at(now)
	if at := u.Health.returned.Load(); at != 0 {
		l.Penalty += slowStart(int64(now)-at, l.Limit)
	}
}

// penalty counts failures and refusals as load, so that a fast-failing upstream does not look
// idle. The zero value is no penalty.
type penalty struct{ newest atomic.Pointer[decaying] }

// decaying is a quantity that halves every halfLife.
type decaying struct {
	value float64
	since Moment
}

// halfLife makes a failure weigh like a call that runs for a few seconds.
const halfLife = 5 * time.Second

// penaltyMax is the maximum penalty, in calls. A higher penalty would keep calls away from a good
// upstream for a minute after an outage under load.
const penaltyMax = 64

// A penalty of this age is below 0.002 calls and counts as zero.
const decayed = Moment(15 * halfLife)

func (d *decaying) at(now Moment) float64 {
	if d == nil || now-d.since > decayed {
		return 0
	}
	return d.value * math.Exp2(-float64(max(0, now-d.since))/float64(halfLife))
}

func (p *penalty) at(now Moment) float64 {
	if d := p.newest.Load(); d != nil {
		return d.at(now)
	}
	return 0
}

// charge counts one failure or refusal.
func (p *penalty) charge(now Moment) {
	for {
		old := p.newest.Load()
		if p.newest.CompareAndSwap(old, &decaying{min(penaltyMax, old.at(now)+1), now}) {
			return
		}
	}
}

func (p *penalty) clear() { p.newest.Store(nil) }

// After an upstream returns from down, it looks a quarter full at first, and less full as
// slowStartTime passes. So its share of calls grows gradually. This affects the score and not the
// limit: a route's only upstream is used in full.
const (
	slowStartTime  = 3 * time.Second
	slowStartShare = 0.25
)

func slowStart(since int64, limit int) float64 {
	left := 1 - float64(since)/float64(slowStartTime)
	return min(1, max(0, left)) * slowStartShare * float64(limit)
}

// Work is the work of one or more edges at an upstream.
type Work struct {
	InFlight [poolCount]int // calls, by pool
	Down     bool           // an edge found it down
}

// Here is the work of this edge at an upstream.
type Here struct {
	ID       ID
	Upstream *Upstream
	Work     Work
	// Placed counts the calls that this edge has sent to the upstream since it started to share.
	// Calls whose conversation was already there do not count.
	Placed int64
}

// Here appends this edge's work at every upstream to dst, for the other edges of a fleet.
func (s *Set) Here(dst []Here) []Here {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.byID {
		h := Here{ID: u.identity.id, Upstream: u, Placed: u.slots.fleet.placed.Load()}
		h.Work.Down = u.Health.now() == StateDown
		word := u.slots.inUse.Load()
		for p := range poolCount {
			h.Work.InFlight[p] = inPool(word, p)
		}
		dst = append(dst, h)
	}
	return dst
}

// Elsewhere holds the work that the other edges of a fleet have reported.
type Elsewhere struct {
	Edges int // live edges, including this one
	Works map[ID]Work
	// Placed is Here.Placed, by upstream, as of the reported work.
	Placed map[ID]int64
}

// Share makes every upstream count the work of other edges and enforce the limits together with
// them. If another edge has newly found an upstream down, the upstream is probed at once: the
// report is a hint, and this edge's own probes decide.
func (s *Set) Share(e *Elsewhere) {
	for _, u := range s.All() {
		v := &elsewhere{Work: e.Works[u.identity.id], edges: e.Edges, placed: e.Placed[u.identity.id]}
		before := u.slots.setElsewhere(v, 0)
		if v.Down && (before == nil || !before.Down) && u.Health.now() == StateUp && u.Mode() != ModeMaintenance {
			u.probing.kick()
		}
		if before != nil && v.fewer(before) {
			u.hooks.room()
		}
	}
}

// Divide ends Share. Each limit is divided among the given number of edges, and this edge may use
// its share.
func (s *Set) Divide(edges int) {
	for _, u := range s.All() {
		u.slots.setElsewhere(nil, edges)
	}
}

// DownElsewhere reports whether another edge of the fleet reports the upstream as down.
func DownElsewhere(u *Upstream) bool {
	v := u.slots.fleet.elsewhere.Load()
	return v != nil && v.Down
}

// elsewhere holds the known work of other edges at one upstream. It is immutable.
type elsewhere struct {
	Work
	edges  int
	placed int64 // fleetSlots.placed when the work was reported
}

// inFlight returns the number of calls that count against the pool's limit.
func (v *elsewhere) inFlight(p Pool, shared bool) int {
	if v == nil {
		return 0
	}
	if shared {
		return v.InFlight[PoolText] + v.InFlight[PoolVision] + v.InFlight[PoolAudio]
	}
	return v.InFlight[p]
}

// fewer reports whether any pool has fewer calls than before.
func (v *elsewhere) fewer(before *elsewhere) bool {
	for p := range poolCount {
		if v.InFlight[p] < before.InFlight[p] {
			return true
		}
	}
	return false
}

// SlotAccount counts the calls at an upstream exactly, together with the other edges of a fleet.
// Its methods may be called from any goroutine.
type SlotAccount interface {
	// Take takes a slot if fewer slots than the limit are taken. It may wait for the fleet's store.
	Take(limit int, now time.Time) bool
	Give()
}

// fleetSlots holds what an upstream's slots share with other edges.
type fleetSlots struct {
	elsewhere atomic.Pointer[elsewhere] // nil: unknown, so each edge has its share
	edges     atomic.Int64              // edges that divide the slots; 0: as configured
	placed    atomic.Int64              // see Here.Placed
	drawn     atomic.Int64              // number of used slots that the account counts
	account   atomic.Pointer[SlotAccount]
}

// draw takes a slot from the account, if there is one. The account ensures that no slot is taken
// twice.
func (f *fleetSlots) draw(c *capacity) bool {
	a := f.account.Load()
	if a == nil {
		return true
	}
	if !(*a).Take(c.Text, time.Now()) {
		return false
	}
	f.drawn.Add(1)
	return true
}

// giveBack returns a slot to the account. A reload may have switched the account on or off, so
// drawn slots are counted.
func (f *fleetSlots) giveBack() {
	for n := f.drawn.Load(); n > 0; n = f.drawn.Load() {
		if f.drawn.CompareAndSwap(n, n-1) {
			(*f.account.Load()).Give()
			return
		}
	}
}

// setElsewhere stores the known work of other edges or, if v is nil, how many edges divide the
// slots. It returns the previous work.
func (s *slots) setElsewhere(v *elsewhere, edges int) (before *elsewhere) {
	before = s.fleet.elsewhere.Swap(v)
	if others := s.fleet.edges.Swap(int64(edges)); (before == nil) != (v == nil) || others != int64(edges) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.renew()
	}
	return before
}

// parts returns the number of edges that divide the slots. If the work of the other edges is known,
// or an account counts the slots, it returns 1: each edge may use all slots that the other edges
// leave. Otherwise the number of edges seen takes precedence over the configured one. The caller
// holds mu.
func (s *slots) parts(l Limits, configured int) int {
	if l.Exact || s.fleet.elsewhere.Load() != nil {
		return 1
	}
	return cmp.Or(int(s.fleet.edges.Load()), configured)
}

// weigh adds the work of other edges to a load.
func (v *elsewhere) weigh(l *Load, c *capacity, p Pool, placed int64) {
	if v == nil {
		return
	}
	l.Elsewhere = v.inFlight(p, c.Shared)
	l.Active += l.Elsewhere
	if !c.Exact {
		l.Taken = l.Active
	}
	// Until their next report, assume that each other edge has sent as many calls as this one,
	// since all see the same numbers.
	l.Usual += float64(placed-v.placed) * float64(v.edges-1)
}
