package routing

import (
	"slices"
	"time"

	"penstock/upstreams"
)

// Capacity is a pool's slots at one moment. Available is what this edge may still admit: max(0,
// Total − Active), and nothing of an upstream where it is another model's turn.
type Capacity struct {
	Active, Total, Available int
	Utilization              float64 // percent, 0 to 100
}

// Capacity sums the pool over the targets that may take calls now, of several tiers over those of
// the first one, and without those of arms while others take calls: it is what any call may use. An
// upstream with two targets of the route counts once.
func (r *Route) Capacity(p upstreams.Pool, now time.Time) Capacity {
	return r.Sum([]upstreams.Pool{p}, now)
}

// Sum is the capacity of several pools together. Where an upstream's pools are one shared pool it
// counts once: its slots are not there a second time for images, nor is a call that holds one of
// them.
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

// hasTurn reports whether u has time for calls, and it is the turn of any of the route's names there.
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

// Ready reports whether any target is up, or busy, and serves the model.
func (r *Route) Ready(now time.Time) bool {
	none := func(*upstreams.Upstream) {}
	return r.visit(now, upstreams.StateUp, 0, none) || r.visit(now, upstreams.StateBusy, 0, none)
}

// Serving is the first tier that has an upstream which takes calls now, full or not, and the route
// where there are no tiers. It is nil if none has.
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

// NextChance returns how long it will be, as far as can be foreseen, until one of the targets may
// take a call of a key with these tiers: 0 when one may now, at most an hour.
func (r *Route) NextChance(tiers uint8, now time.Time) time.Duration {
	soonest := time.Hour // no target may ever take it
	for i := range r.targets {
		if t := &r.targets[i]; t.OpenTo(tiers) {
			soonest = min(soonest, t.Upstream.NextChance(t.Served, now))
		}
	}
	return soonest
}

// Room is what a call of a route would find at one of its upstreams now.
type Room struct {
	Slots  int  // that it could take
	Shared bool // they are calls' of every pool
	None   bool // no upstream of the route may take it, here or elsewhere: Acquire would say ErrNoUpstream
}

// Room returns what Acquire would find at u for a query, of which pool, excluded upstreams and time
// count. A breaker that is half-open has one slot, for a trial.
func (r *Route) Room(u *upstreams.Upstream, q *Query) Room {
	q.at = upstreams.At(q.Now)
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
			room.Slots = max(room.Slots, l.Limit-l.Taken) // it may not be the turn of each name
		}
	}
	if u.Breaker.Position(q.Now) == upstreams.BreakerHalfOpen {
		room.Slots = min(1, room.Slots)
	}
	return room
}

// opening returns the tier that a query may go to, or wait for, and the state of its targets, of
// which some may be full. at is negative if there is none.
func opening(r *Route, q *Query) (tier *Route, at int) {
	const stalled = len(states) - 1
	for _, last := range [...]bool{false, true} {
		from, to := 0, stalled
		if q.within = q.Arms; last {
			q.within, to = 0, len(states)
			if q.Arms == 0 {
				from = stalled // the others are known not to be
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

// anyAllowed reports whether a query may go to any target in a state.
func (r *Route) anyAllowed(q *Query, s upstreams.State) bool {
	for i := range r.targets {
		if q.allows(&r.targets[i], s) {
			return true
		}
	}
	return false
}

// eachEligible visits the distinct upstreams that a call could go to now, by the rule of pick:
// those in the first of the states that has any, and of an arm only if there are no others.
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

// visit visits those in one state. Like a pick it counts an engine that refuses what every call of
// the route asks for only where there is no other.
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
		for j := range i { // by index: a thousand targets would be copied half a million times
			if earlier := &r.targets[j]; earlier.Upstream == t.Upstream && takes(earlier) {
				continue next
			}
		}
		found = true
		visit(t.Upstream)
	}
	return found
}

// takes reports whether a call could go to the target now, if that is in the given state.
func (t *Target) takes(now time.Time, s upstreams.State) bool {
	return t.Upstream.EligibleIn(s, upstreams.At(now)) && t.model.Available()
}

// BytesPerToken is how many bytes of prompt text make a token of the model: the mean over its
// engines, whether they take calls now or not. It is 0 while none has reported a prompt's tokens.
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

// ContextLength is the smallest context that the engines which may take calls now report for the
// model, in tokens; 0 when none of them says.
func (r *Route) ContextLength(now time.Time) int {
	smallest := 0
	for i := range r.targets {
		t := &r.targets[i]
		if !t.takes(now, upstreams.StateUp) && !t.takes(now, upstreams.StateBusy) {
			continue
		}
		if n := t.model.Context(); n > 0 && (smallest == 0 || n < smallest) {
			smallest = n
		}
	}
	return smallest
}

// TextOnly reports whether every engine that lists the model says that it takes no images. Engines
// that list nothing, or say nothing of images, may take them.
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

// SeparatePools reports whether any of the route's upstreams, of several tiers any of the first,
// has separate pools for text, vision and audio.
func (r *Route) SeparatePools() bool {
	r = First(r)
	for i := range r.targets {
		if !r.targets[i].Upstream.Limits().Shared {
			return true
		}
	}
	return false
}

// Full is the refusal of a query for which every eligible target is at its limit, or is to be woken
// first.
func (r *Route) Full(q *Query) error {
	if starting(r, q) {
		return ErrStarting
	}
	tier, _ := opening(r, q)
	return fullAt(tier, q)
}

// fullAt is the refusal of a query by a tier of whose targets each is at its limit, or busy.
func fullAt(tier *Route, q *Query) error {
	full := &FullError{Pool: q.Pool, Capacity: tier.Capacity(q.Pool, q.Now)}
	tier.visit(q.Now, upstreams.StateBusy, 0, func(*upstreams.Upstream) { full.Silent++ })
	return full
}

// starting reports whether none of the route's engines is there, and one may be woken or is being
// woken.
func starting(r *Route, q *Query) (starting bool) {
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
func (t *Target) wakes(q *Query) bool {
	u := t.Upstream
	return u.State() == upstreams.StateDown && u.Mode() == upstreams.ModeReady &&
		!q.excludes(t) && t.of(q.within) && t.OpenTo(q.Tiers) && u.Health.Wake.Possible(q.Now)
}

// Wake asks for one of the route's engines, of those that may be woken the first in the
// configuration, unless one is being woken already.
func (r *Route) Wake(q *Query) {
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
