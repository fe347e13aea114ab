package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// Capacity is a snapshot of a pool's slots. Available is how many calls this edge may still admit:
// max(0, Total − Active), not counting upstreams where another model has the turn.
type Capacity struct {
	Active, Total, Available int
	Utilization              float64 // percent, 0 to 100
}

// Capacity returns the sum of the pool's slots over the targets that take calls now. It counts only
// the first tier, and counts arms only if no targets outside arms take calls. If a route has more
// than one target at an upstream, the upstream counts once.
func (r *Route) Capacity(p upstreams.Pool, now time.Time) Capacity {
	return r.Sum([]upstreams.Pool{p}, now)
}

// Sum returns the total capacity of the given pools. If an upstream has one shared pool, it counts
// once.
func (r *Route) Sum(pools []upstreams.Pool, now time.Time) Capacity {
	var c Capacity
	var l upstreams.Load
	r = First(r)
	r.eachEligible(now, func(u *upstreams.Upstream) {
		own := pools
		if u.Limits().Shared {
			own = pools[:1]
		}
		for _, p := range own {
			u.ReadLoad(&l, p, upstreams.At(now))
			c.Active += l.Active
			c.Total += l.Limit
			if hasTurn(r, u, now) {
				c.Available += max(0, l.Limit-l.Active)
			}
		}
	})
	return c.withUtilization()
}

// hasTurn reports whether u takes calls now and its turns admit one of the route's models.
func hasTurn(r *Route, u *upstreams.Upstream, now time.Time) bool {
	if u.State() == upstreams.StateBusy {
		return false
	}
	for i := range r.targets {
		if t := &r.targets[i]; t.Upstream == u && t.model.HasTurn(now) {
			return true
		}
	}
	return false
}

func (c Capacity) withUtilization() Capacity {
	c.Utilization = 0
	if c.Total > 0 {
		c.Utilization = min(100, 100*float64(c.Active)/float64(c.Total))
	}
	return c
}

// Ready reports whether any target is up or busy and serves the model.
func (r *Route) Ready(now time.Time) bool {
	none := func(*upstreams.Upstream) {}
	return r.visit(now, upstreams.StateUp, 0, none) || r.visit(now, upstreams.StateBusy, 0, none)
}

// Serving returns the first tier that has an upstream that takes calls now. The upstream may be
// full. It returns nil if there is no such tier. A route that has no tiers counts as its only tier.
func Serving(r *Route, now time.Time) *Route {
	if r.Tiers == nil {
		return r
	}
	for _, tier := range r.Tiers {
		if tier.Ready(now) {
			return tier
		}
	}
	return nil
}

// NextChance estimates how long it takes until a target may take a call made with a key that has
// these tiers. It returns 0 if a target may take the call now. It returns at most an hour.
func (r *Route) NextChance(tiers uint8, now time.Time) time.Duration {
	soonest := time.Hour // also returned if the key may not use any target
	for i := range r.targets {
		if t := &r.targets[i]; t.OpenTo(tiers) {
			soonest = min(soonest, t.Upstream.NextChance(t.Served, now))
		}
	}
	return soonest
}

// Room describes the slots that a call may use at one upstream of its route.
type Room struct {
	Slots  int  // slots that the call could acquire
	Shared bool // all pools share the slots
	None   bool // Acquire would return ErrNoUpstream
}

// Room returns the slots that Acquire would find at u for a query. A half-open breaker leaves one
// slot, for the trial.
func (r *Route) Room(u *upstreams.Upstream, query *Query) Room {
	q := &search{Query: *query, at: upstreams.At(query.Now)}
	tier, at := opening(r, q)
	if at < 0 {
		return Room{None: !starting(r, q)}
	}
	state := states[at]
	room := Room{Shared: u.Limits().Shared}
	for i := range tier.targets {
		if t := &tier.targets[i]; t.Upstream == u && q.allows(t, state) {
			var l upstreams.Load
			t.readLoad(&l, q)
			room.Slots = max(room.Slots, l.Limit-l.Taken) // some served names may not have the turn now
		}
	}
	if u.Breaker.Position(q.Now) == upstreams.BreakerHalfOpen {
		room.Slots = min(1, room.Slots)
	}
	return room
}

// opening returns the tier that a query may use or wait for. Some of the tier's targets may be
// full. at is the index in states of the state that its targets are in, or negative if there is no
// such tier.
func opening(r *Route, q *search) (tier *Route, at int) {
	const stalled = len(states) - 1
	for _, last := range [...]bool{false, true} {
		from, to := 0, stalled
		if q.within = q.Arms; last {
			q.within, to = 0, len(states)
			if q.Arms == 0 {
				from = stalled // otherwise the first pass has already checked these states
			}
		}
		for _, tier = range tiersOf(r) {
			for at = from; at < to; at++ {
				if tier.anyAllowed(q, states[at]) {
					return tier, at
				}
			}
		}
	}
	if q.Needs != 0 && !q.anyway {
		q.anyway = true
		return opening(r, q)
	}
	return First(r), -1
}

// anyAllowed reports whether the query may use at least one target in state s.
func (r *Route) anyAllowed(q *search, s upstreams.State) bool {
	for i := range r.targets {
		if q.allows(&r.targets[i], s) {
			return true
		}
	}
	return false
}

// eachEligible calls visit for each distinct upstream that a call could use now. Like pick, it
// considers only targets in the first state for which there is a target. It visits arms only if
// there are no other targets.
func (r *Route) eachEligible(now time.Time, visit func(*upstreams.Upstream)) {
	if r.arms != nil {
		for _, s := range states[:len(states)-1] {
			if r.visit(now, s, rest, visit) {
				return
			}
		}
	}
	for _, s := range states {
		if r.visit(now, s, 0, visit) {
			return
		}
	}
}

// visit calls visit for the upstreams in one state. Like a pick, it visits an engine that lacks a
// feature needed by all calls of the route only if there are no other engines.
func (r *Route) visit(now time.Time, s upstreams.State, of Arms, visit func(*upstreams.Upstream)) bool {
	return r.visitThat(of, visit, func(t *Target) bool { return t.takes(now, s) && !t.model.Lacks(t.work, upstreams.At(now)) }) ||
		r.visitThat(of, visit, func(t *Target) bool { return t.takes(now, s) })
}

func (r *Route) visitThat(of Arms, visit func(*upstreams.Upstream), that func(*Target) bool) bool {
	takes := func(t *Target) bool { return t.of(of) && that(t) }
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

// takes reports whether the target is in state s and could take a call now.
func (t *Target) takes(now time.Time, s upstreams.State) bool {
	return t.Upstream.EligibleIn(s, upstreams.At(now)) && t.model.Available()
}

// BytesPerToken returns the average number of bytes of prompt text per token at the model's
// engines. It returns 0 until an engine has reported how many tokens a prompt has.
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
// considers only engines that take calls now, and returns 0 if none of them reports a length. It
// ignores engines that are reserved for short prompts.
func (r *Route) ContextLength(now time.Time) int {
	smallest := 0
	for i := range r.targets {
		t := &r.targets[i]
		if t.longest > 0 || !t.takes(now, upstreams.StateUp) && !t.takes(now, upstreams.StateBusy) {
			continue
		}
		if n := t.model.Context(); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// TextOnly reports whether all engines that list the model report that it accepts no images. An
// engine that has no list, or reports nothing about images, may accept them.
func (r *Route) TextOnly() bool {
	some := false
	for i := range r.targets {
		t := &r.targets[i]
		switch m, listed := t.Upstream.Models.Find(t.Served); {
		case listed && (m.Vision || !m.VisionKnown), !listed && t.Upstream.Models.All() == nil:
			return false
		case listed:
			some = true
		}
	}
	return some
}

// SeparatePools reports whether any upstream of the route has separate pools for text, vision and
// audio. It considers only the first tier.
func (r *Route) SeparatePools() bool {
	r = First(r)
	for i := range r.targets {
		if !r.targets[i].Upstream.Limits().Shared {
			return true
		}
	}
	return false
}

// Full returns the error with which a query is refused if every eligible target is at its limit or
// must first be woken.
func (r *Route) Full(q *Query) error { return fullFor(r, &search{Query: *q}) }

func fullFor(r *Route, q *search) error {
	if starting(r, q) {
		return ErrStarting
	}
	tier, _ := opening(r, q)
	return fullAt(tier, &q.Query)
}

// fullAt returns the error for a tier whose targets are all full or busy.
func fullAt(tier *Route, q *Query) error {
	full := &FullError{Pool: q.Pool, Capacity: tier.Capacity(q.Pool, q.Now)}
	tier.visit(q.Now, upstreams.StateBusy, 0, func(*upstreams.Upstream) { full.Silent++ })
	return full
}

// starting reports whether none of the route's engines is available but at least one is being woken
// or may be woken.
func starting(r *Route, q *search) (starting bool) {
	q.at = upstreams.At(q.Now)
	for i := range r.targets {
		t := &r.targets[i]
		in := func(s upstreams.State) bool { return t.Upstream.EligibleIn(s, q.at) }
		if t.of(q.within) && t.OpenTo(q.Tiers) && slices.ContainsFunc(states[:], in) {
			return false
		}
		starting = starting || t.wakes(q)
	}
	return starting
}

// wakes reports whether the target's engine may be woken, or is being woken, for the query.
func (t *Target) wakes(q *search) bool {
	u := t.Upstream
	return u.State() == upstreams.StateDown && u.Mode() == upstreams.ModeReady &&
		!q.excludes(t) && t.of(q.within) && t.OpenTo(q.Tiers) && u.Health.Wake.Possible(q.Now)
}

// Wake requests that one of the route's engines be woken, unless one is already being woken. It
// chooses the first engine, in configuration order, that may be woken.
func (r *Route) Wake(q *Query) { wake(r, &search{Query: *q}) }

func wake(r *Route, q *search) {
	var first *upstreams.Upstream
	for i := range r.targets {
		t := &r.targets[i]
		if !t.wakes(q) {
			continue
		}
		if t.Upstream.Health.Wake.Starting(q.Now) {
			return
		}
		if first == nil {
			first = t.Upstream
		}
	}
	if first != nil {
		first.Health.Wake.Ask(q.Now)
	}
}
