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
	memory    = time.Minute
	maxBodies = 1024 // in a larger outage, the breakers are enough protection
)

// Requests records which bodies have killed which engines. Its methods may be called by multiple
// goroutines.
type Requests struct {
	seed   maphash.Seed
	common atomic.Pointer[string] // the fleet's seed; nil if it is not known
	until  atomic.Int64           // when the newest entry in bodies expires, in Unix nanoseconds
	some   atomic.Bool
	fleet  Fleet // nil if this edge is not in a fleet

	mu     sync.Mutex
	bodies map[uint64]*lostEngines
	failed map[uint64]time.Time // when each failure expires, keyed by the hash of the body
	shared map[uint64][]*upstreams.Upstream
}

// Fleet passes the records of this edge to the other edges.
type Fleet interface {
	// Lost reports that the body with the given hash has killed an engine. The record expires after
	// life.
	Lost(hash uint64, engine upstreams.ID, life time.Duration)
	// Cleared reports that an engine has answered the body with the given hash.
	Cleared(hash uint64)
}

type lostEngines struct {
	until   time.Time
	engines []*upstreams.Upstream
}

// New returns a Requests without records.
func New() *Requests {
	return &Requests{seed: maphash.MakeSeed(), bodies: map[uint64]*lostEngines{}, failed: map[uint64]time.Time{}}
}

// ShareBy makes r share its records with a fleet. It must be called before any other method.
func (r *Requests) ShareBy(f Fleet) { r.fleet = f }

// Seed sets the fleet's seed. If the seed changes, Seed removes all hashes, because they were
// computed with the old seed.
func (r *Requests) Seed(seed string) {
	if before := r.common.Load(); before != nil && *before == seed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.common.Store(&seed)
	clear(r.bodies)
}

// Learn replaces the records from the fleet. lost maps the hash of a body to the engines that the
// body has killed.
func (r *Requests) Learn(lost map[uint64][]*upstreams.Upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared = maps.Clone(lost)
	r.some.Store(len(lost) > 0)
}

// Record records that body has killed u. It returns the hash of the body for Clear.
func (r *Requests) Record(body []byte, u *upstreams.Upstream, now time.Time) (hash uint64) {
	hash = r.Hash(body)
	until := now.Add(memory)
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, old := range r.bodies {
		if !now.Before(old.until) {
			delete(r.bodies, h)
		}
	}
	of := r.bodies[hash]
	if of == nil {
		if len(r.bodies) >= maxBodies {
			return hash
		}
		of = &lostEngines{}
		r.bodies[hash] = of
	}
	of.until = until
	if !slices.Contains(of.engines, u) {
		of.engines = append(of.engines, u)
	}
	r.until.Store(until.UnixNano())
	if r.fleet != nil && r.common.Load() != nil {
		r.fleet.Lost(hash, u.ID(), memory)
	}
	return hash
}

// RecordFailure records that an engine reported an internal failure for body. It returns the hash
// of the body for ClearFailure.
func (r *Requests) RecordFailure(body []byte, now time.Time) (hash uint64) {
	hash = r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, until := range r.failed {
		if !now.Before(until) {
			delete(r.failed, h)
		}
	}
	if len(r.failed) < maxBodies {
		r.failed[hash] = now.Add(memory)
	}
	return hash
}

// Fails reports whether an engine reported an internal failure for body in the last minute.
func (r *Requests) Fails(body []byte, now time.Time) bool {
	hash := r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ok := r.failed[hash]
	return ok && now.Before(until)
}

// ClearFailure removes the failure record of a body that another engine has answered.
func (r *Requests) ClearFailure(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, hash)
}

// Hash returns the hash of a body. It is never 0.
func (r *Requests) Hash(body []byte) uint64 {
	seed := r.common.Load()
	if seed == nil {
		return max(1, maphash.Bytes(r.seed, body))
	}
	h := hmac.New(sha256.New, []byte(*seed))
	h.Write(body)
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}

// Clear removes the record of the engines that a body killed, because an engine has answered the
// body.
func (r *Requests) Clear(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.bodies, hash)
	if r.fleet != nil {
		delete(r.shared, hash)
		r.fleet.Cleared(hash)
	}
}

// Blocks reports whether body has killed at least two engines that are still down.
func (r *Requests) Blocks(body []byte, now time.Time) bool {
	if now.UnixNano() >= r.until.Load() && !r.some.Load() {
		return false
	}
	hash := r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	lost := r.shared[hash]
	if of := r.bodies[hash]; of != nil && now.Before(of.until) {
		lost = append(lost[:len(lost):len(lost)], of.engines...)
	}
	down := map[*upstreams.Upstream]bool{}
	for _, u := range lost {
		if u.State() == upstreams.StateDown || upstreams.DownElsewhere(u) {
			down[u] = true
		}
	}
	return len(down) >= 2
}
