package upstreams

import (
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"penstock/config"
	"penstock/upstreams/engine"
)

// SlotPool is a kind of work. All calls of a pool share a limit.
type SlotPool uint8

// PoolVision contains only requests with images. PoolAudio contains only requests for transcription
// and speech.
const (
	PoolText SlotPool = iota
	PoolVision
	PoolAudio
	poolCount
)

// String returns the pool's name in the configuration, metrics and catalog.
func (p SlotPool) String() string { return [...]string{"text", "vision", "audio"}[p] }

// slotUnit returns the amount that one in-flight call of a pool adds to slots.inUse. That word
// contains three counters of 21 bits. One compare-and-swap can therefore enforce a shared limit or
// separate limits, and a reload may switch between the two while calls run.
func slotUnit(p SlotPool) uint64 { return 1 << (slotBits * uint(p)) }

const (
	slotBits     = 21
	maxPoolSlots = 1<<slotBits - 1
)

func callsInPool(word uint64, p SlotPool) int {
	return int(word >> (slotBits * uint(p)) & maxPoolSlots)
}

func callsInAllPools(word uint64) int {
	return callsInPool(word, PoolText) + callsInPool(word, PoolVision) + callsInPool(word, PoolAudio)
}

// slots counts the in-flight calls of an upstream and enforces its limits. Slots are acquired,
// released and read atomically. The mutex guards changes of the limits.
type slots struct {
	inUse        atomic.Uint64 // in-flight calls of all pools, see slotUnit
	tokens       [poolCount]atomic.Int64
	unreadTokens atomic.Int64 // estimated unread prompt tokens
	promptStart  atomic.Int64 // when the engine started to read its current prompt (Moment)
	// holderCounts counts leases by a hash of their key, without a lock or an allocation. Keys with
	// the same hash share a counter and count as one key.
	holderCounts [256]atomic.Int32
	limits       atomic.Pointer[slotCapacity]

	mu             sync.Mutex
	configured     config.Concurrency
	sharingEdges   int // number of edges that share the slots
	weight         float64
	profile        *engine.Profile
	reportedSlots  int // number of slots that the engine reports; 0 if not reported
	ghosts         int // number of slots that ghosts occupy; see ghostRequestTracker
	observedPlaces int // observed number of concurrent requests, or 0; see concurrencyTracker

	fleet fleetSlots
	hooks *upstreamHooks
}

// tryAcquire acquires a slot of the pool if enough slots then remain unused. free is the required
// share of the limit.
func (s *slots) tryAcquire(p SlotPool, free config.Percent) bool {
	c, others := s.limits.Load(), s.fleet.others.Load()
	unit, most := slotUnit(p), c.netSlots[p]
	if free > 0 {
		most -= int(free.Of(int64(most)))
	}
	if !c.Exact || free > 0 {
		most -= others.inFlight(p, c.Shared)
	}
	for {
		word := s.inUse.Load()
		if c.countPoolCalls(word, p) >= most || callsInPool(word, p) == maxPoolSlots {
			return false
		}
		if s.inUse.CompareAndSwap(word, word+unit) {
			break
		}
	}
	if c.Exact && !s.fleet.takeFromAccount(c) {
		s.inUse.Add(-unit)
		return false
	}
	return true
}

func (s *slots) release(p SlotPool) {
	s.inUse.Add(-slotUnit(p))
	if s.fleet.accountSlots.Load() > 0 {
		s.fleet.returnToAccount()
	}
}

// holderSeed is different in each process, so that clients cannot cause hash collisions.
var holderSeed = maphash.MakeSeed()

func holderHashBucket(key string) uint8 { return uint8(maphash.String(holderSeed, key)) }

// SlotsHeldBy returns the number of an upstream's slots that the key with this id occupies.
func SlotsHeldBy(u *Upstream, key string) int {
	return int(u.slots.holderCounts[holderHashBucket(key)].Load())
}

func (s *slots) inFlight() int { return callsInAllPools(s.inUse.Load()) }

func (s *slots) configure(u *config.Upstream, weight float64, profile *engine.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configured, s.sharingEdges, s.weight, s.profile = u.Concurrency, u.Edges, weight, profile
	s.updateLimits()
}

// setProfile applies the profile of a newly detected engine, which has not reported its slots yet.
func (s *slots) setProfile(profile *engine.Profile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.profile, s.reportedSlots = profile, 0
	s.updateLimits()
}

// setReported stores the engine's report of how many requests it can run concurrently.
func (s *slots) setReported(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != s.reportedSlots {
		s.reportedSlots = n
		s.updateLimits()
	}
}

// setObserved stores the number of ghosts and the observed number of concurrent requests.
func (s *slots) setObserved(ghosts, places int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ghosts != s.ghosts || places != s.observedPlaces {
		s.ghosts, s.observedPlaces = ghosts, places
		s.updateLimits()
	}
}

func (s *slots) ghostCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ghosts
}

// limitsWith returns the limits that would apply with the given settings and engine.
func (s *slots) limitsWith(u *config.Upstream, profile *engine.Profile) Limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	limits := newLimits(u.Concurrency, s.reportedSlots, profile)
	return limits.divideAmongEdges(s.slotDivisor(limits, u.Edges))
}

// updateLimits recomputes the limits. The caller must hold mu.
func (s *slots) updateLimits() {
	limits := newLimits(s.configured, s.reportedSlots, s.profile)
	if limits.Exact && s.fleet.account.Load() == nil && s.hooks.slotAccount != nil {
		a := s.hooks.slotAccount()
		s.fleet.account.Store(&a)
	}
	c := newCapacity(limits, s.slotDivisor(limits, s.sharingEdges), s.ghosts, s.observedPlaces, s.weight)
	if old := s.limits.Swap(c); old != nil && c.mayHaveFreeSlot(old) {
		s.hooks.wakeWaiting()
	}
}

// Limits contains the number of slots that this edge may use at an upstream.
type Limits struct {
	Shared bool `json:"shared"` // all pools share one limit, so the three numbers are equal
	Text   int  `json:"text"`
	Vision int  `json:"vision"`
	Audio  int  `json:"audio"`
	// Source is LimitFromConfig, engine.SlotsReported, engine.SlotsOfProfile or
	// engine.SlotsDefault.
	Source string `json:"source"`
	Exact  bool   `json:"exact,omitempty"` // the fleet enforces the limit exactly
}

// LimitFromConfig is the source of limits that the configuration sets.
const LimitFromConfig = "config"

// PoolLimit returns the limit of a pool.
func (l *Limits) PoolLimit(p SlotPool) int { return [...]int{l.Text, l.Vision, l.Audio}[p] }

// countPoolCalls returns the number of calls that count against the pool's limit.
func (l *Limits) countPoolCalls(word uint64, p SlotPool) int {
	if l.Shared {
		return callsInAllPools(word)
	}
	return callsInPool(word, p)
}

// newLimits returns the limits from the first source that sets them: the configuration, the engine,
// the profile, the default. If the configuration contains a map, the pools have separate limits,
// and a pool that is missing from the map has no slots.
func newLimits(c config.Concurrency, reported int, p *engine.Profile) Limits {
	switch {
	case c.Shared > 0:
		l := sharedLimits(c.Shared, LimitFromConfig)
		l.Exact = c.IsExact()
		return l
	case c.IsSet():
		text, vision, audio := min(c.Text, maxPoolSlots), min(c.Vision, maxPoolSlots), min(c.Audio, maxPoolSlots)
		return Limits{Text: text, Vision: vision, Audio: audio, Source: LimitFromConfig}
	}
	return sharedLimits(p.Slots(reported))
}

func sharedLimits(n int, source string) Limits {
	n = min(n, maxPoolSlots)
	return Limits{Shared: true, Text: n, Vision: n, Audio: n, Source: source}
}

// slotCapacity contains the limits that routing and leases read. It is immutable.
type slotCapacity struct {
	Limits
	netSlots [poolCount]int     // slots minus ghosts
	places   [poolCount]int     // see Load.Places
	share    [poolCount]float64 // see Load.Share
	weight   float64
}

func (l Limits) divideAmongEdges(edges int) Limits {
	if edges > 1 {
		for _, n := range []*int{&l.Text, &l.Vision, &l.Audio} {
			*n = config.EdgeShare(*n, edges)
		}
		l.Source = fmt.Sprintf("%s / %d edges", l.Source, edges)
	}
	return l
}

// newCapacity computes this edge's part of the limits. The places and shares are computed from the
// slots of all edges, because the load includes the work of other edges. Ghosts are subtracted, but
// one slot always remains, so that an engine full of ghosts still gets calls. Ghosts and observed
// places apply only to a shared limit, because they cannot be assigned to separate pools. Places
// affect the weight of a call but not the limit, because the engine accepts additional calls and
// queues them.
func newCapacity(all Limits, edges, ghosts, places int, weight float64) *slotCapacity {
	c := &slotCapacity{Limits: all.divideAmongEdges(edges), weight: weight}
	for p := range poolCount {
		n := all.PoolLimit(p)
		seen := n
		if all.Shared && n > 0 {
			if places > 0 {
				seen = min(n, places)
			}
			n, seen = max(1, n-ghosts), max(1, seen-ghosts)
		}
		c.netSlots[p], c.places[p], c.share[p] = config.EdgeShare(n, edges), seen, 1/(float64(max(1, seen))*weight)
	}
	return c
}

// mayHaveFreeSlot reports whether a change of the capacity from before to c may free a slot. If the
// pools no longer share a limit, each of them may have a free slot.
func (c *slotCapacity) mayHaveFreeSlot(before *slotCapacity) bool {
	for p := range poolCount {
		if c.netSlots[p] > before.netSlots[p] {
			return true
		}
	}
	return before.Shared && !c.Shared
}
