package poison

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"penstock/upstreams"
)

const (
	memory    = time.Minute // how long a loss is remembered
	maxBodies = 1024        // bodies that are remembered; in a larger outage the breakers decide
)

// Requests remembers which engines were lost to which bodies. Its methods may be called from any
// goroutine.
type Requests struct {
	seed  maphash.Seed
	until atomic.Int64 // Unix nanoseconds of the end of the newest entry

	mu     sync.Mutex
	bodies map[uint64]*lostEngines
}

// lostEngines are the engines that were lost to one body.
type lostEngines struct {
	until   time.Time
	engines []*upstreams.Upstream
}

// New makes an empty memory.
func New() *Requests {
	return &Requests{seed: maphash.MakeSeed(), bodies: map[uint64]*lostEngines{}}
}

// Record notes that u was lost to body. It returns the hash that Clear takes.
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
	return hash
}

// Hash returns a body's hash, never 0.
func (r *Requests) Hash(body []byte) uint64 { return max(1, maphash.Bytes(r.seed, body)) }

// Clear forgets a body that was answered.
func (r *Requests) Clear(hash uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.bodies, hash)
}

// Blocks reports whether two engines that were lost to body are still down.
func (r *Requests) Blocks(body []byte, now time.Time) bool {
	if now.UnixNano() >= r.until.Load() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.bodies[r.Hash(body)]
	if of == nil || !now.Before(of.until) {
		return false
	}
	down := 0
	for _, u := range of.engines {
		if u.State() == upstreams.StateDown {
			down++
		}
	}
	return down >= 2
}
