package routing

import (
	"time"

	"penstock/upstreams"
)

// Acquire picks the best eligible target and takes a lease on it. The caller owns the lease and
// must release it exactly once. The error is ErrNoUpstream, ErrStarting or a *FullError.
func (r *Route) Acquire(q *Query) (*upstreams.Lease, *Target, error) {
	return acquire(r, q, (*upstreams.ServedModel).TryLease)
}

// take is ServedModel.TryLease. A test has something happen between a pick and the lease on it.
type take func(*upstreams.ServedModel, string, upstreams.Pool, int, time.Time) (*upstreams.Lease, bool)

// acquire is Acquire. A call that loses the race for what it has picked looks again, and is told
// what it meets then: a slot that is gone is a full pool, a trial that is gone is no upstream.
func acquire(r *Route, q *Query, take take) (*upstreams.Lease, *Target, error) {
	start := 0
	if n := len(r.targets); n > 1 {
		start = int(r.rotor.Add(1) % uint32(n))
	}
	q.full = q.full[:0]
	for lost := 0; ; lost++ {
		best, eligible := r.pick(q, start)
		switch {
		case !eligible && starting(r, q):
			return nil, nil, ErrStarting
		case !eligible:
			return nil, nil, ErrNoUpstream
		case best == nil, lost > len(r.targets):
			return nil, nil, r.Full(q)
		}
		if lease, ok := take(best.model, q.Key, q.Pool, q.Tokens, q.Now); ok {
			if r.directory != nil {
				if r.directory.places != nil {
					r.directory.tell(q.Prefix, best)
				}
				r.directory.learn(q.Prefix, best.member)
			}
			return lease, best, nil
		}
		if best.Upstream.Limits().Exact {
			q.full = append(q.full, best.Upstream.ID())
		}
	}
}

// pick chooses among the targets, from start on. Targets that were never probed are asked only when
// none of the route is up, and stalled ones when there is no other.
func (r *Route) pick(q *Query, start int) (best *Target, eligible bool) {
	q.at = upstreams.At(q.Now)
	c := choice{r: r, q: q, start: start}
	for _, c.state = range states {
		if best, eligible = r.choose(&c); eligible || q.UpOnly {
			break
		}
	}
	return best, eligible
}

// choose has the route's policy choose.
func (r *Route) choose(c *choice) (best *Target, eligible bool) {
	switch r.policy {
	case policyRoundRobin:
		return c.nextInTurn()
	case policyTwoChoices:
		if best = c.betterOfTwo(); best != nil {
			return best, true
		}
	case policyPrefixAffinity:
		best, own := c.warmest()
		if best != nil {
			return best, true
		}
		return c.home(own)
	case policyLeastLoaded:
	}
	return c.leastLoaded()
}
