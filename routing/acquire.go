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
// must release it exactly once. The error is ErrNoUpstream, ErrEngineStarting or a *FullError.
func (r *Route) Acquire(query *Query) (*upstreams.Lease, *Target, error) {
	q := targetSearch{Query: *query}
	if q.Why != nil {
		q.Why.Reason, q.Why.Estimates = "", q.Why.Estimates[:0]
	}
	if q.RetryAfter == 0 || q.Key == "" {
		return acquireIgnoringClaims(r, &q)
	}
	kept := r.claims.hideReservedSlots(r, &q)
	lease, target, err := acquireIgnoringClaims(r, &q)
	r.claims.recordAcquireResult(r, query, kept, err)
	return lease, target, err
}

// StartCharging begins a key's turn after Acquire has returned the lease l. weight is Query.Weight.
// The caller owns the CallCharge, and uses it to record the call's service. If no key was waiting
// for slots recently, StartCharging returns the zero CallCharge.
func StartCharging(r *Route, key string, weight float64, l *upstreams.Lease, now time.Time) turns.CallCharge {
	if weight == 0 || r.scheduler.IsQuiet() {
		return turns.CallCharge{}
	}
	return r.scheduler.StartCharging(key, weight, turns.ServiceUnits(l.Prompt().Uncached, 0), now)
}

// acquireIgnoringClaims is like Acquire, but ignores claims. If only engines that lack a needed
// feature accept calls, it picks one of them. That engine's refusal is more useful to the client
// than "no upstream".
func acquireIgnoringClaims(r *Route, q *targetSearch) (*upstreams.Lease, *Target, error) {
	q.ignoreNeeds = false
	lease, target, err := acquireEligible(r, q)
	if err == nil || q.Needs == 0 || !errors.Is(err, ErrNoUpstream) || errors.Is(err, ErrEngineStarting) {
		return lease, target, err
	}
	q.ignoreNeeds = true
	return acquireEligible(r, q)
}

// acquireEligible picks among the engines that the query may use now.
func acquireEligible(r *Route, q *targetSearch) (*upstreams.Lease, *Target, error) {
	if r.Tiers != nil || q.Arms != 0 {
		return acquireFromTiers(r, q)
	}
	return acquireTarget(r, q, (*upstreams.ServedModel).TryLease)
}

// tryLeaseFunc has the signature of ServedModel.TryLease. Tests pass a different function to act
// between a pick and its lease.
type tryLeaseFunc func(*upstreams.ServedModel, string, upstreams.SlotPool, upstreams.Prompt, config.Percent, time.Time) (*upstreams.Lease, bool)

// acquireTarget picks a target of one route and acquires a lease on it. If another call acquires
// the target's slot or trial first, acquireTarget scans again. The last scan determines the error:
// *FullError if no slot is left, ErrNoUpstream if no trial is left.
func acquireTarget(r *Route, q *targetSearch, take tryLeaseFunc) (*upstreams.Lease, *Target, error) {
	start := 0
	if n := len(r.targets); n > 1 {
		start = int(r.startCounter.Add(1) % uint32(n))
	}
	q.cached.n, q.cached.placedMember = 0, 0
	if r.prefixIndex != nil {
		r.prefixIndex.lookUp(q.Prefix, r.targets, &q.cached)
	}
	for lost := 0; ; lost++ {
		best, eligible := r.pickTarget(q, start)
		switch {
		case !eligible && isStarting(r, q):
			return nil, nil, ErrEngineStarting
		case !eligible:
			return nil, nil, ErrNoUpstream
		case best == nil, lost > len(r.targets):
			return nil, nil, refusalError(r, q)
		}
		if lease, ok := take(best.model, q.Key, q.Pool, q.leasePrompt(best), q.Reserve, q.Now); ok {
			if r.prefixIndex != nil {
				begins := r.prefixIndex.recordPrompt(q.Prefix, best, q.Session)
				if p := r.prefixIndex.placements.Load(); p != nil {
					p.recordPlacement(q, best, begins)
				}
			}
			return lease, best, nil
		}
		if best.Upstream.Limits().Exact {
			q.fullUpstreams = append(q.fullUpstreams, best.Upstream.ID())
		}
	}
}

// pickTarget chooses among the targets, starting at index start. It considers pending targets only
// if no target is up, and stalled targets only if there are no others.
func (r *Route) pickTarget(q *targetSearch, start int) (best *Target, eligible bool) {
	q.moment = upstreams.MomentOf(q.Now)
	c := targetScan{r: r, q: q, start: start}
	for _, c.state = range statePreference {
		if best, eligible = r.pickByPolicy(&c); eligible || q.UpOnly || q.skipStalled && c.state == upstreams.StateBusy {
			break
		}
	}
	return best, eligible
}

// pickByPolicy picks a target according to the route's policy. A route with a single target needs
// no scores, except to explain the pick.
func (r *Route) pickByPolicy(c *targetScan) (best *Target, eligible bool) {
	if r.policy == policyRoundRobin || len(r.targets) == 1 && c.q.Why == nil {
		return c.pickRoundRobin()
	}
	return c.pickSoonest()
}

// A tier is a group of a route's targets. It gets calls only while all targets in earlier tiers are
// down or, if the tier has config.DeploymentUsedWhenFull, full. Each call checks the earlier tiers
// again, so traffic returns to an earlier tier as soon as that tier has a free slot. Targets that a
// call has already tried, or that cannot serve the call, do not count. Stalled targets are used
// only if no tier has other targets.

// acquireFromTiers acquires a lease on a target of a route that has tiers or arms. It wakes a
// sleeping engine even if the call goes to a different tier. If no tier can serve the call, the
// error is that of the first full tier.
func acquireFromTiers(r *Route, q *targetSearch) (*upstreams.Lease, *Target, error) {
	defer func() { q.skipStalled = false }()
	var full, starting error
	for _, q.skipStalled = range [...]bool{true, false} {
		for _, tier := range tiersOrSelf(r) {
			if full != nil && !(q.Overflow && tier.When == config.DeploymentUsedWhenFull) {
				break
			}
			lease, target, err := acquireInTier(tier, q)
			switch {
			case err == nil:
				return lease, target, nil
			case errors.Is(err, ErrEngineStarting):
				requestWake(tier, q)
				starting = err
			case !errors.Is(err, ErrNoUpstream):
				full = cmp.Or(full, err)
			case q.Busy && slices.ContainsFunc(tier.targets, func(t Target) bool { return q.excludesTarget(&t) }):
				if r.Tiers == nil {
					return nil, nil, err
				}
				full = cmp.Or(full, tierFullError(tier, &q.Query))
			}
		}
		if full != nil || q.UpOnly {
			break
		}
	}
	return nil, nil, cmp.Or(full, starting, ErrNoUpstream)
}

// acquireInTier acquires a lease on a target of one tier. It considers the targets of the call's
// arm first, and then the targets that belong to no arm. Once stalled targets are allowed, it
// considers all targets.
func acquireInTier(r *Route, q *targetSearch) (*upstreams.Lease, *Target, error) {
	own := q.Arms &^ noArmBit
	if own != 0 && q.skipStalled && slices.ContainsFunc(r.targets, func(t Target) bool { return t.isInArmSet(own) }) {
		q.searchArms = own
		l, t, err := acquireTarget(r, q, (*upstreams.ServedModel).TryLease)
		if err == nil {
			return l, t, nil
		}
		requestWake(r, q) // wakes the arm's engine if it sleeps
	}
	q.searchArms = 0
	if q.skipStalled {
		q.searchArms = q.Arms & noArmBit
	}
	return acquireTarget(r, q, (*upstreams.ServedModel).TryLease)
}
