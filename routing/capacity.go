package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// Capacity is a snapshot of the slots of a pool. Available is how many more calls this edge may
// admit: max(0, Total − Active), not counting upstreams where it is another model's turn.
type Capacity struct {
	Active, Total, Available int
	Utilization              float64 // percent, 0 to 100
}

// PoolCapacity returns the sum of the pool's slots over the targets that accept calls now. It
// counts only the first tier, and counts arms only if no targets outside arms accept calls. If a
// route has more than one target at an upstream, the upstream counts once.
func (r *Route) PoolCapacity(p upstreams.SlotPool, now time.Time) Capacity {
	return r.TotalCapacity([]upstreams.SlotPool{p}, now)
}

// TotalCapacity returns the total capacity of the given pools. If an upstream has one shared pool,
// it counts once.
func (r *Route) TotalCapacity(pools []upstreams.SlotPool, now time.Time) Capacity {
	var c Capacity
	var l upstreams.Load
	r = FirstTier(r)
	r.visitPools(pools, now, func(u *upstreams.Upstream, p upstreams.SlotPool) {
		u.ReadLoad(&l, p, upstreams.MomentOf(now))
		c.Active += l.Active
		c.Total += l.Limit
		if hasModelTurn(r, u, now) {
			c.Available += max(0, l.Limit-l.Active)
		}
	})
	return c.withComputedUtilization()
}

// visitPools calls visit for each of the pools at each distinct upstream that a call could use now.
// If an upstream has one shared pool, it calls visit once.
func (r *Route) visitPools(pools []upstreams.SlotPool, now time.Time, visit func(*upstreams.Upstream, upstreams.SlotPool)) {
	r.visitEligible(now, func(u *upstreams.Upstream) {
		own := pools
		if u.Limits().Shared {
			own = pools[:1]
		}
		for _, p := range own {
			visit(u, p)
		}
	})
}

// SlotSum sums the slots of routes. Slots that several routes share count once.
type SlotSum struct {
	Total   int
	counted map[countedPoolKey]bool
}

type countedPoolKey struct {
	upstream *upstreams.Upstream
	pool     upstreams.SlotPool
}

// Add adds the slots of the given pools that calls of the route could use now.
func (s *SlotSum) Add(r *Route, pools []upstreams.SlotPool, now time.Time) {
	if s.counted == nil {
		s.counted = map[countedPoolKey]bool{}
	}
	var l upstreams.Load
	FirstTier(r).visitPools(pools, now, func(u *upstreams.Upstream, p upstreams.SlotPool) {
		at := countedPoolKey{u, p}
		if u.Limits().Shared {
			at.pool = upstreams.PoolText
		}
		if !s.counted[at] {
			s.counted[at] = true
			u.ReadLoad(&l, p, upstreams.MomentOf(now))
			s.Total += l.Limit
		}
	})
}

// hasModelTurn reports whether u accepts calls now and it is the turn of one of the route's models
// there.
func hasModelTurn(r *Route, u *upstreams.Upstream, now time.Time) bool {
	if u.State() == upstreams.StateBusy {
		return false
	}
	for i := range r.targets {
		if t := &r.targets[i]; t.Upstream == u && t.model.CanAdmitCallNow(now) {
			return true
		}
	}
	return false
}

func (c Capacity) withComputedUtilization() Capacity {
	c.Utilization = 0
	if c.Total > 0 {
		c.Utilization = min(100, 100*float64(c.Active)/float64(c.Total))
	}
	return c
}

// IsReady reports whether any target is up or busy and serves the model.
func (r *Route) IsReady(now time.Time) bool {
	none := func(*upstreams.Upstream) {}
	return r.visitInState(now, upstreams.StateUp, 0, none) || r.visitInState(now, upstreams.StateBusy, 0, none)
}

// ServingTier returns the first tier in which an upstream, possibly a full one, accepts calls now.
// It returns nil if there is no such tier. A route without tiers counts as a single tier.
func ServingTier(r *Route, now time.Time) *Route {
	if r.Tiers == nil {
		return r
	}
	for _, tier := range r.Tiers {
		if tier.IsReady(now) {
			return tier
		}
	}
	return nil
}

// EstimateAcceptDelay estimates how long it takes until a target may accept a call of a key that
// has these tiers. It returns 0 if a target may accept the call now, and at most one hour.
func (r *Route) EstimateAcceptDelay(tiers TierSet, now time.Time) time.Duration {
	soonest := time.Hour // also returned if the key may not use any target
	for i := range r.targets {
		if t := &r.targets[i]; t.IsOpenToTiers(tiers) {
			soonest = min(soonest, t.Upstream.RetryDelay(t.Served, now))
		}
	}
	return soonest
}

// UsableSlots describes the slots that a call may use at one upstream of its route.
type UsableSlots struct {
	Slots  int  // slots that the call could acquire
	Shared bool // all pools share the slots
	None   bool // Acquire would return ErrNoUpstream
}

// UsableSlots returns the slots that Acquire could use at u for a query. If the breaker is
// half-open, there is one slot, for the trial.
func (r *Route) UsableSlots(u *upstreams.Upstream, query *Query) UsableSlots {
	q := &targetSearch{Query: *query, moment: upstreams.MomentOf(query.Now)}
	tier, at := tierForQuery(r, q)
	if at < 0 {
		return UsableSlots{None: !isStarting(r, q)}
	}
	state := statePreference[at]
	room := UsableSlots{Shared: u.Limits().Shared}
	for i := range tier.targets {
		if t := &tier.targets[i]; t.Upstream == u && q.mayUse(t, state) {
			var l upstreams.Load
			t.readLoad(&l, q)
			room.Slots = max(room.Slots, l.Limit-l.Taken) // some served names may be waiting for their turn
		}
	}
	if u.Breaker.StateAt(q.Now) == upstreams.BreakerHalfOpen {
		room.Slots = min(1, room.Slots)
	}
	return room
}

// tierForQuery returns the tier that a query may use or wait for. The tier's targets may be full.
// at is the index of their state in statePreference, or negative if there is no such tier.
func tierForQuery(r *Route, q *targetSearch) (tier *Route, at int) {
	const stalled = len(statePreference) - 1
	for _, last := range [...]bool{false, true} {
		from, to := 0, stalled
		if q.searchArms = q.Arms; last {
			q.searchArms, to = 0, len(statePreference)
			if q.Arms == 0 {
				from = stalled // the first pass has already checked the other states
			}
		}
		for _, tier = range tiersOrSelf(r) {
			for at = from; at < to; at++ {
				if tier.hasTargetInState(q, statePreference[at]) {
					return tier, at
				}
			}
		}
	}
	if q.Needs != 0 && !q.ignoreNeeds {
		q.ignoreNeeds = true
		return tierForQuery(r, q)
	}
	return FirstTier(r), -1
}

// hasTargetInState reports whether the query may use at least one target in state s.
func (r *Route) hasTargetInState(q *targetSearch, s upstreams.State) bool {
	for i := range r.targets {
		if q.mayUse(&r.targets[i], s) {
			return true
		}
	}
	return false
}

// visitEligible calls visit for each distinct upstream that a call could use now. Like pickTarget,
// it considers only the most preferred state that any target is in. It visits the targets of arms
// only if there are no others.
func (r *Route) visitEligible(now time.Time, visit func(*upstreams.Upstream)) {
	if r.arms != nil {
		for _, s := range statePreference[:len(statePreference)-1] {
			if r.visitInState(now, s, noArmBit, visit) {
				return
			}
		}
	}
	for _, s := range statePreference {
		if r.visitInState(now, s, 0, visit) {
			return
		}
	}
}

// visitInState calls visit for the upstreams in one state, and reports whether there are any. It
// visits engines that lack a feature needed by all calls of the route only if there are no other
// engines.
func (r *Route) visitInState(now time.Time, s upstreams.State, of ArmSet, visit func(*upstreams.Upstream)) bool {
	return r.visitMatching(of, visit, func(t *Target) bool {
		return t.canTakeCall(now, s) && !t.model.LacksFeature(t.requiredFeatures, upstreams.MomentOf(now))
	}) ||
		r.visitMatching(of, visit, func(t *Target) bool { return t.canTakeCall(now, s) })
}

func (r *Route) visitMatching(of ArmSet, visit func(*upstreams.Upstream), that func(*Target) bool) bool {
	takes := func(t *Target) bool { return t.isInArmSet(of) && that(t) }
	found := false
next:
	for i := range r.targets {
		t := &r.targets[i]
		if !takes(t) {
			continue
		}
		for j := range i { // index the targets, because copying a thousand of them would be slow
			if earlier := &r.targets[j]; earlier.Upstream == t.Upstream && takes(earlier) {
				continue next
			}
		}
		found = true
		visit(t.Upstream)
	}
	return found
}

// canTakeCall reports whether the target is in state s and could accept a call now.
func (t *Target) canTakeCall(now time.Time, s upstreams.State) bool {
	return t.Upstream.IsEligibleIn(s, upstreams.MomentOf(now)) && t.model.IsAvailable()
}

// BytesPerToken returns the average number of bytes of prompt text per token at the model's
// engines. It returns 0 until an engine has reported a prompt's token count.
func (r *Route) BytesPerToken() float64 {
	sum, n := 0.0, 0
	for i := range r.targets {
		if v := r.targets[i].Upstream.Averages.BytesPerToken(); v > 0 {
			sum += v
			n++
		}
	}
	return sum / float64(max(1, n))
}

// ContextLength returns the smallest context length, in tokens, reported by the model's engines. It
// considers only engines that accept calls now, and ignores engines that are reserved for short
// prompts. It returns 0 if no engine reports a length.
func (r *Route) ContextLength(now time.Time) int {
	smallest := 0
	for i := range r.targets {
		t := &r.targets[i]
		if t.maxPromptTokens > 0 || !t.canTakeCall(now, upstreams.StateUp) && !t.canTakeCall(now, upstreams.StateBusy) {
			continue
		}
		if n := t.model.ContextLength(); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// IsTextOnly reports whether all engines that list the model report that the model accepts no
// images. It returns false if an engine has no list or reports nothing about images.
func (r *Route) IsTextOnly() bool {
	some := false
	for i := range r.targets {
		t := &r.targets[i]
		switch m, listed := t.Upstream.Models.ModelInfo(t.Served); {
		case listed && (m.Vision || !m.VisionKnown), !listed && t.Upstream.Models.ListedModels() == nil:
			return false
		case listed:
			some = true
		}
	}
	return some
}

// HasSeparateModalityPools reports whether any upstream of the route has separate pools for text,
// vision and audio. It considers only the first tier.
func (r *Route) HasSeparateModalityPools() bool {
	r = FirstTier(r)
	for i := range r.targets {
		if !r.targets[i].Upstream.Limits().Shared {
			return true
		}
	}
	return false
}

// RefusalError returns the error for refusing a query if every eligible target is at its limit or
// must first be woken.
func (r *Route) RefusalError(q *Query) error { return refusalError(r, &targetSearch{Query: *q}) }

func refusalError(r *Route, q *targetSearch) error {
	if isStarting(r, q) {
		return ErrEngineStarting
	}
	tier, _ := tierForQuery(r, q)
	return tierFullError(tier, &q.Query)
}

// tierFullError returns the error for a tier whose targets are all full or busy.
func tierFullError(tier *Route, q *Query) error {
	full := &FullError{Pool: q.Pool, Capacity: tier.PoolCapacity(q.Pool, q.Now), NextSlot: tier.estimateSlotDelay(q.Pool, q.Now)}
	tier.visitInState(q.Now, upstreams.StateBusy, 0, func(*upstreams.Upstream) { full.Silent++ })
	return full
}

// estimateSlotDelay estimates how long it takes until one of the pool's slots becomes free while
// all of them are in use. It returns 0 if no call has ended yet.
func (r *Route) estimateSlotDelay(p upstreams.SlotPool, now time.Time) time.Duration {
	var endsPerSecond float64
	var l upstreams.Load
	r.visitEligible(now, func(u *upstreams.Upstream) {
		if took := r.averageCallTime(u).Seconds(); took > 0 {
			u.ReadLoad(&l, p, upstreams.MomentOf(now))
			endsPerSecond += float64(l.Limit) / took
		}
	})
	if endsPerSecond == 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / endsPerSecond)
}

// averageCallTime returns the average duration of the route's calls at u, or 0 if none has ended
// yet.
func (r *Route) averageCallTime(u *upstreams.Upstream) (longest time.Duration) {
	for i := range r.targets {
		if t := &r.targets[i]; t.Upstream == u {
			longest = max(longest, t.model.AverageCallTime())
		}
	}
	return longest
}

// isStarting reports whether none of the route's engines is available, but at least one is being
// woken or may be woken.
func isStarting(r *Route, q *targetSearch) (starting bool) {
	q.moment = upstreams.MomentOf(q.Now)
	for i := range r.targets {
		t := &r.targets[i]
		in := func(s upstreams.State) bool { return t.Upstream.IsEligibleIn(s, q.moment) }
		if t.isInArmSet(q.searchArms) && t.IsOpenToTiers(q.Tiers) && slices.ContainsFunc(statePreference[:], in) {
			return false
		}
		starting = starting || t.canWake(q)
	}
	return starting
}

// canWake reports whether the target's engine may be woken, or is being woken, for the query.
func (t *Target) canWake(q *targetSearch) bool {
	u := t.Upstream
	return u.State() == upstreams.StateDown && u.Mode() == upstreams.ModeReady &&
		!q.excludesTarget(t) && t.isInArmSet(q.searchArms) && t.IsOpenToTiers(q.Tiers) && u.Health.Wake.CanWake(q.Now)
}

// RequestWake requests that one of the route's engines be woken, unless an engine is already being
// woken. It chooses the first engine, in configuration order, that may be woken.
func (r *Route) RequestWake(q *Query) { requestWake(r, &targetSearch{Query: *q}) }

func requestWake(r *Route, q *targetSearch) {
	var first *upstreams.Upstream
	for i := range r.targets {
		t := &r.targets[i]
		if !t.canWake(q) {
			continue
		}
		if t.Upstream.Health.Wake.IsStarting(q.Now) {
			return
		}
		if first == nil {
			first = t.Upstream
		}
	}
	if first != nil {
		first.Health.Wake.RequestStart(q.Now)
	}
}
