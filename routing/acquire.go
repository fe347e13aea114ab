package routing

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"penstock/config"
	"penstock/routing/turns"
	"penstock/upstreams"
)

// Acquire picks the best eligible target and acquires a lease on it. The caller owns the lease and
// must release it exactly once. The error is ErrNoUpstream, ErrStarting or a *FullError.
func (r *Route) Acquire(query *Query) (*upstreams.Lease, *Target, error) {
	q := search{Query: *query}
	if q.Why != nil {
		q.Why.Reason, q.Why.Estimates = "", q.Why.Estimates[:0]
	}
	if q.RetryAfter == 0 || q.Key == "" {
		return acquireAny(r, &q)
	}
	kept := r.claims.before(r, &q)
	lease, target, err := acquireAny(r, &q)
	r.claims.after(r, query, kept, err)
	return lease, target, err
}

// BeginTurn begins the turn of a key after Acquire has returned the lease l. weight is
// Query.Weight. The caller owns the turn, and the turn records the call's service. While no key
// waits for slots, BeginTurn returns the zero Turn.
func BeginTurn(r *Route, key string, weight float64, l *upstreams.Lease, now time.Time) turns.Turn {
	if weight == 0 || r.line.Quiet() {
		return turns.Turn{}
	}
	return r.line.Begin(key, weight, turns.Weight(l.Prompt().Uncached, 0), now)
}

// acquireAny is like Acquire, but ignores claims. If no other engine takes calls, it picks an
// engine that lacks a needed feature, because that engine's refusal is more useful to the client
// than "no upstream".
func acquireAny(r *Route, q *search) (*upstreams.Lease, *Target, error) {
	q.anyway = false
	lease, target, err := acquireFit(r, q)
	if q.Needs == 0 || !errors.Is(err, ErrNoUpstream) || errors.Is(err, ErrStarting) {
		return lease, target, err
	}
	q.anyway = true
	return acquireFit(r, q)
}

// acquireFit picks among the engines that the query may use now.
func acquireFit(r *Route, q *search) (*upstreams.Lease, *Target, error) {
	if r.Tiers != nil || q.Arms != 0 {
		return descend(r, q)
	}
	return acquire(r, q, (*upstreams.ServedModel).TryLease)
}

// take has the signature of ServedModel.TryLease. Tests replace it to act between a pick and its
// lease.
type take func(*upstreams.ServedModel, string, upstreams.Pool, upstreams.Prompt, config.Percent, time.Time) (*upstreams.Lease, bool)

// acquire picks and leases a target of one route. A call that loses the race for its picked target
// scans again. The last scan determines the error. If another call took the slot, the pool is full.
// If another call took the trial, there is no upstream.
func acquire(r *Route, q *search, take take) (*upstreams.Lease, *Target, error) {
	start := 0
	if n := len(r.targets); n > 1 {
		start = int(r.rotor.Add(1) % uint32(n))
	}
	q.known.n, q.known.place = 0, 0
	if r.directory != nil {
		r.directory.look(q.Prefix, r.targets, &q.known)
	}
	for lost := 0; ; lost++ {
		best, eligible := r.pick(q, start)
		switch {
		case !eligible && starting(r, q):
			return nil, nil, ErrStarting
		case !eligible:
			return nil, nil, ErrNoUpstream
		case best == nil, lost > len(r.targets):
			return nil, nil, fullFor(r, q)
		}
		if lease, ok := take(best.model, q.Key, q.Pool, q.promptAt(best), q.Reserve, q.Now); ok {
			if r.directory != nil {
				begins := r.directory.learn(q.Prefix, best, q.Session)
				if p := r.directory.places.Load(); p != nil {
					p.tell(q, best, begins)
				}
			}
			return lease, best, nil
		}
		if best.Upstream.Limits().Exact {
			q.full = append(q.full, best.Upstream.ID())
		}
	}
}

// pick chooses among the targets, starting at index start. It considers unprobed targets only if no
// target of the route is up, and stalled targets only if there are no others.
func (r *Route) pick(q *search, start int) (best *Target, eligible bool) {
	q.at = upstreams.At(q.Now)
	c := choice{r: r, q: q, start: start}
	for _, c.state = range states {
		if best, eligible = r.choose(&c); eligible || q.UpOnly || q.notStalled && c.state == upstreams.StateBusy {
			break
		}
	}
	return best, eligible
}

// choose applies the route's policy. A lone target needs no score, except to explain the pick: it
// may be the only target of a tier.
func (r *Route) choose(c *choice) (best *Target, eligible bool) {
	if r.policy == policyRoundRobin || len(r.targets) == 1 && c.q.Why == nil {
		return c.nextInTurn()
	}
	return c.soonest()
}

// A tier is a group of a route's targets. It takes calls only while all targets in earlier tiers
// are down or, if the tier has config.WhenFull, full. Each call checks the earlier tiers again, so
// traffic returns to an earlier tier as soon as it has a free slot. Targets that a call has already
// tried, or that cannot serve the call, do not count. Stalled targets are used only if no tier has
// other targets.

// descend picks for a route with tiers or arms. It wakes a sleeping engine even if another tier
// takes the call. If no tier takes the call, the error comes from the first full tier.
func descend(r *Route, q *search) (*upstreams.Lease, *Target, error) {
	defer func() { q.notStalled = false }()
	var full, starting error
	for _, q.notStalled = range [...]bool{true, false} {
		for _, tier := range tiersOf(r) {
			if full != nil && !(q.Overflow && tier.When == config.WhenFull) {
				break
			}
			lease, target, err := acquireArm(tier, q)
			switch {
			case err == nil:
				return lease, target, nil
			case errors.Is(err, ErrStarting):
				wake(tier, q)
				starting = err
			case !errors.Is(err, ErrNoUpstream):
				full = cmp.Or(full, err)
			case q.Busy && slices.ContainsFunc(tier.targets, func(t Target) bool { return q.excludes(&t) }):
				if r.Tiers == nil {
					return nil, nil, err
				}
				full = cmp.Or(full, fullAt(tier, &q.Query))
			}
		}
		if full != nil || q.UpOnly {
			break
		}
	}
	return nil, nil, cmp.Or(full, starting, ErrNoUpstream)
}

// acquireArm picks a target in one tier. It considers the targets of the call's arm first, and then
// those that belong to no arm. In the last pass, when stalled targets are allowed, it considers all
// targets.
func acquireArm(r *Route, q *search) (*upstreams.Lease, *Target, error) {
	own := q.Arms &^ rest
	if own != 0 && q.notStalled && slices.ContainsFunc(r.targets, func(t Target) bool { return t.of(own) }) {
		q.within = own
		l, t, err := acquire(r, q, (*upstreams.ServedModel).TryLease)
		if err == nil {
			return l, t, nil
		}
		wake(r, q) // wakes the arm's engine if it sleeps
	}
	q.within = 0
	if q.notStalled {
		q.within = q.Arms & rest
	}
	return acquire(r, q, (*upstreams.ServedModel).TryLease)
}
