package routing

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"

	"penstock/upstreams"
)

// Target is one upstream that serves a route's model, under the name that its engine knows.
type Target struct {
	Upstream *upstreams.Upstream
	Served   string
	offer    *upstreams.Offer // of the served name
	known    *index           // of the prompts sent there, for the policy that needs it
}

// Route is one model's way to its engines. It is safe for concurrent use.
type Route struct {
	ID      string // the model's canonical id
	Index   int    // position in Table.Routes
	targets []Target
	policy  policy
	rotor   *atomic.Uint32
	// indexes are those of the targets, by upstream, for the policy that needs them; the map is not changed after Build.
	indexes map[upstreams.ID]*index
}

// Query is one call's question. It is borrowed for the length of Acquire.
type Query struct {
	Pool    upstreams.Pool
	Tokens  int            // estimated tokens of the call, charged to the lease
	Prefix  []uint64       // HashBlocks of the prompt, for a route that WantsPrefix
	Exclude []upstreams.ID // upstreams that this call has tried
	Now     time.Time
	Rand    uint64 // source of chance for ties
}

func (q *Query) excludes(t *Target) bool {
	for _, id := range q.Exclude {
		if id == t.Upstream.ID() {
			return true
		}
	}
	return false
}

// Targets returns the route's targets in the order of the configuration. The slice is the route's own.
func (r *Route) Targets() []Target { return r.targets }

// WantsPrefix reports whether the route's policy looks at Query.Prefix.
func (r *Route) WantsPrefix() bool { return r.indexes != nil }

// Acquire picks the best eligible target and takes a lease on it. The caller owns the lease and must release it exactly
// once. The error is ErrNoUpstream or a *FullError.
func (r *Route) Acquire(q *Query) (*upstreams.Lease, *Target, error) {
	start := 0
	if n := len(r.targets); n > 1 {
		start = int(r.rotor.Add(1) % uint32(n))
	}
	for range r.targets { // at most one lost race per target
		best, eligible := r.pick(q, start)
		switch {
		case !eligible:
			return nil, nil, ErrNoUpstream
		case best == nil:
			return nil, nil, r.Full(q)
		}
		if lease, ok := best.Upstream.TryLease(q.Pool, q.Tokens, q.Now); ok {
			if best.known != nil {
				best.known.learn(q.Prefix)
			}
			return lease, best, nil
		}
	}
	return nil, nil, r.Full(q)
}

// pick chooses among the targets, from start on. Targets that were never probed are asked only when none of the route is
// up.
func (r *Route) pick(q *Query, start int) (best *Target, eligible bool) {
	if best, eligible = r.scan(q, start, (*upstreams.Upstream).Eligible); eligible {
		return best, true
	}
	return r.scan(q, start, (*upstreams.Upstream).EligiblePending)
}

// may says whether an upstream may be sent a call: Eligible, or EligiblePending for a route that has nothing better.
type may func(*upstreams.Upstream, time.Time) bool

// allows filters: the upstream may be used, it has the model, and this call has not tried it.
func (q *Query) allows(t *Target, up may) bool {
	return up(t.Upstream, q.Now) && t.offer.Stands() && (len(q.Exclude) == 0 || !q.excludes(t))
}

func (r *Route) scan(q *Query, start int, up may) (best *Target, eligible bool) {
	mean := 0.0
	if r.policy == policyPrefixAffinity {
		if best, mean = r.warmest(q, up); best != nil {
			return best, true
		}
	}
	var l upstreams.Load
	lowest, ties, chance := math.Inf(1), uint64(0), mix(q.Rand)
	for i, at := 0, start; i < len(r.targets); i, at = i+1, at+1 {
		if at == len(r.targets) {
			at = 0
		}
		t := &r.targets[at]
		if !q.allows(t, up) {
			continue
		}
		eligible = true
		t.Upstream.ReadLoad(&l, q.Pool, q.Now)
		if l.Active >= l.Limit {
			continue
		}
		switch s := r.score(q, t, &l, i, mean); {
		case s < lowest:
			best, lowest, ties = t, s, 1
		case s == lowest:
			// Reservoir choice: the k-th equal replaces the choice with probability 1/k.
			ties++
			chance = chance*6364136223846793005 + 1442695040888963407 // Knuth's generator: its upper bits are good
			if share, _ := bits.Mul64(chance, ties); share == 0 {
				best = t
			}
		}
	}
	return best, eligible
}

// mix is one step of splitmix64, a cheap generator whose every output is well spread.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Full is the refusal of a query for which every eligible target is at its limit.
func (r *Route) Full(q *Query) error {
	return &FullError{Pool: q.Pool, Capacity: r.Capacity(q.Pool, q.Now)}
}
