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
	memory    = time.Minute // how long a loss is remembered
	maxBodies = 1024        // how many bodies are remembered at once; in a larger outage the breakers decide
)

// Requests remembers which engines were lost to which bodies. Any goroutine may call its methods.
type Requests struct {
	seed   maphash.Seed
	common atomic.Pointer[string] // the fleet's seed; nil: none
	until  atomic.Int64           // when the newest entry expires, in Unix nanoseconds
	some   atomic.Bool            // shared has entries
	fleet  Fleet                  // nil: this edge is not in a fleet

	mu     sync.Mutex
	bodies map[uint64]*lostEngines
	failed map[uint64]time.Time             // when a body's failure is forgotten
	shared map[uint64][]*upstreams.Upstream // what the fleet knows
}

// Fleet passes what this edge has found to the other edges.
type Fleet interface {
	// Lost reports that an engine was lost to a body with this hash. The report is valid for the
	// duration life.
	Lost(hash uint64, engine upstreams.ID, life time.Duration)
	// Cleared reports that a body with this hash was answered.
	Cleared(hash uint64)
}

// lostEngines lists the engines that were lost to one body.
type lostEngines struct {
	until   time.Time
	engines []*upstreams.Upstream
}

// New returns a Requests that remembers no losses.
func New() *Requests {
	return &Requests{seed: maphash.MakeSeed(), bodies: map[uint64]*lostEngines{}, failed: map[uint64]time.Time{}}
}

// ShareBy makes r share its records with the fleet. It must be called before any other method.
func (r *Requests) ShareBy(f Fleet) { r.fleet = f }

// Seed makes r hash bodies under the fleet's seed. It forgets the hashes under another seed.
func (r *Requests) Seed(seed string) {
	if before := r.common.Load(); before != nil && *before == seed {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.common.Store(&seed)
	clear(r.bodies)
}

// Learn replaces the known losses of the fleet. lost lists, by body hash, the engines that the
// fleet's edges have lost.
func (r *Requests) Learn(lost map[uint64][]*upstreams.Upstream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shared = maps.Clone(lost)
	r.some.Store(len(lost) > 0)
}

// Record records that u was lost to body. It returns the hash that Clear takes.
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

// RecordFailure records that an engine reported an internal failure for a body. It returns the hash
// that ClearFailure takes.
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

// Fails reports whether an engine has reported a failure for the body in the last minute.
func (r *Requests) Fails(body []byte, now time.Time) bool {
	hash := r.Hash(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	until, ok := r.failed[hash]
	return ok && now.Before(until)
}

// ClearFailure forgets a body that another engine has answered.
func (r *Requests) ClearFailure(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failed, hash)
}

// Hash returns a body's hash, never 0.
func (r *Requests) Hash(body []byte) uint64 {
	seed := r.common.Load()
	if seed == nil {
		return max(1, maphash.Bytes(r.seed, body))
	}
	h := hmac.New(sha256.New, []byte(*seed))
	h.Write(body)
	return max(1, binary.LittleEndian.Uint64(h.Sum(nil)))
}

// Clear forgets the losses of a body that was answered.
func (r *Requests) Clear(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.bodies, hash)
	if r.fleet != nil {
		delete(r.shared, hash)
		r.fleet.Cleared(hash)
	}
}

// Blocks reports whether at least two engines that were lost to body are still down.
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
