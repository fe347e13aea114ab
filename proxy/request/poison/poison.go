package poison

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams"
)

const (
	recordTTL = time.Minute
	maxBodies = 1024 // in a larger outage, the breakers provide enough protection
)

// BodyTracker records which bodies have killed which engines. Its methods may be called by multiple
// goroutines.
type BodyTracker struct {
	seed            maphash.Seed
	fleetSeed       atomic.Pointer[string] // the fleet's seed; nil if it is not known
	newestExpiry    atomic.Int64           // expiry of the newest entry in lostByBody, in Unix nanoseconds
	hasFleetRecords atomic.Bool
	fleet           Fleet // nil if this edge is not in a fleet

	mu            sync.Mutex
	lostByBody    map[uint64]*lostEngines
	failureExpiry map[uint64]time.Time // when each failure expires, keyed by the hash of the body
	fleetLost     map[uint64][]*upstreams.Upstream
}

// Fleet passes the records of this edge to the other edges.
type Fleet interface {
	// ReportLostEngine reports that the body with the given hash has killed an engine. The record expires
	// after life.
	ReportLostEngine(hash uint64, engine upstreams.ID, life time.Duration)
	// ReportClearedBody reports that an engine has answered the body with the given hash.
	ReportClearedBody(hash uint64)
}

type lostEngines struct {
	expires time.Time
	engines []*upstreams.Upstream
}

// New returns a BodyTracker without records.
func New() *BodyTracker {
	return &BodyTracker{seed: maphash.MakeSeed(), lostByBody: map[uint64]*lostEngines{}, failureExpiry: map[uint64]time.Time{}}
}

// SetFleet makes r share its records with a fleet. It must be called before any other method.
func (r *BodyTracker) SetFleet(f Fleet) { r.fleet = f }

// SetSeed sets the fleet's seed. If the seed changes, SetSeed removes all hashes, because they were
// computed with the old seed.
func (r *BodyTracker) SetSeed(seed string) {
	if before := r.fleetSeed.Load(); before != nil && *before == seed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleetSeed.Store(&seed)
	clear(r.lostByBody)
}

// SetLostEngines replaces the records that come from the fleet. lost maps the hash of a body to the
// engines that the body has killed.
func (r *BodyTracker) SetLostEngines(lost map[uint64][]*upstreams.Upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.fleetLost = maps.Clone(lost)
	r.hasFleetRecords.Store(len(lost) > 0)
}

// RecordEngineLoss records that body has killed u. It returns the hash of the body for ClearLoss.
func (r *BodyTracker) RecordEngineLoss(body []byte, u *upstreams.Upstream, now time.Time) (hash uint64) {
	hash = r.Hash(body)
	until := now.Add(recordTTL)
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, old := range r.lostByBody {
		if !now.Before(old.expires) {
			delete(r.lostByBody, h)
		}
	}
	of := r.lostByBody[hash]
	if of == nil {
		if len(r.lostByBody) >= maxBodies {
			return hash
		}
		of = &lostEngines{}
		r.lostByBody[hash] = of
	}
	of.expires = until
	if !slices.Contains(of.engines, u) {
		of.engines = append(of.engines, u)
	}
	r.newestExpiry.Store(until.UnixNano())
	if r.fleet != nil && r.fleetSeed.Load() != nil {
		r.fleet.ReportLostEngine(hash, u.ID(), recordTTL)
	}
	return hash
}

// RecordInternalFailure records that an engine reported an internal failure for body. It returns
// the hash of the body for ClearFailure.
func (r *BodyTracker) RecordInternalFailure(body []byte, now time.Time) (hash uint64) {
	hash = r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, until := range r.failureExpiry {
		if !now.Before(until) {
			delete(r.failureExpiry, h)
		}
	}
	if len(r.failureExpiry) < maxBodies {
		r.failureExpiry[hash] = now.Add(recordTTL)
	}
	return hash
}

// HasInternalFailure reports whether an engine reported an internal failure for body in the last
// minute.
func (r *BodyTracker) HasInternalFailure(body []byte, now time.Time) bool {
	hash := r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ok := r.failureExpiry[hash]
	return ok && now.Before(until)
}

// ClearFailure removes the failure record of a body, because another engine has answered the body.
func (r *BodyTracker) ClearFailure(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failureExpiry, hash)
}

// Hash returns the hash of a body. It is never 0.
func (r *BodyTracker) Hash(body []byte) uint64 {
	seed := r.fleetSeed.Load()
	if seed == nil {
		return max(1, maphash.Bytes(r.seed, body))
	}
	h := hmac.New(sha256.New, []byte(*seed))
	h.Write(body)
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}

// ClearLoss removes the record of the engines that a body killed, because an engine has answered
// the body.
func (r *BodyTracker) ClearLoss(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lostByBody, hash)
	if r.fleet != nil {
		delete(r.fleetLost, hash)
		r.fleet.ReportClearedBody(hash)
	}
}

// IsBlocked reports whether body has killed at least two engines that are still down.
func (r *BodyTracker) IsBlocked(body []byte, now time.Time) bool {
	if now.UnixNano() >= r.newestExpiry.Load() && !r.hasFleetRecords.Load() {
		return false
	}
	hash := r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.fleetLost[hash]
	if of := r.lostByBody[hash]; of != nil && now.Before(of.expires) {
		lost = append(lost[:len(lost):len(lost)], of.engines...)
	}
	down := map[*upstreams.Upstream]bool{}
	for _, u := range lost {
		if u.State() == upstreams.StateDown || upstreams.IsDownElsewhere(u) {
			down[u] = true
		}
	}
	return len(down) >= 2
}
