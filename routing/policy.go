package routing

import (
	"math/bits"

	"penstock/config"
	"penstock/upstreams"
)

// policy is how a route scores its targets; the lowest score gets the call.
type policy uint8

const (
	policyLeastLoaded policy = iota
	policyTwoChoices
	policyRoundRobin
	policyPrefixAffinity
)

func policyOf(name string) policy {
	switch name {
	case config.PolicyTwoChoices:
		return policyTwoChoices
	case config.PolicyRoundRobin:
		return policyRoundRobin
	case config.PolicyPrefixAffinity:
		return policyPrefixAffinity
	}
	return policyLeastLoaded
}

// tokensPerSlot is how many tokens in flight weigh as much as one more request: a long prompt holds
// an engine longer than a short one, but decoding, which is per request, dominates.
const tokensPerSlot = 4096

// loadOf is the share of the upstream's weighted limit that would be in use with one more call on
// it: leases of this edge and of its fleet, others' usual work by its reports, recent failures, and
// the tokens in flight.
func loadOf(l *upstreams.Load) float64 {
	return (float64(l.Active+1) + l.Usual + l.Penalty + float64(l.Tokens)*(1.0/tokensPerSlot)) * l.Share
}

// lowest keeps the target with the lowest score of those it is shown, and chance decides between
// equal ones.
type lowest struct {
	score float64
	n     int              // of the equals
	equal [maxEqual]uint16 // positions in the route
}

// maxEqual bounds the choice among equals. In larger routes the rotating start brings everybody's
// turn.
const maxEqual = 64

func (m *lowest) show(at int, score float64) {
	if m.n == 0 || score < m.score {
		m.score, m.n = score, 0
	}
	if score == m.score && m.n < maxEqual {
		m.equal[m.n] = uint16(at)
		m.n++
	}
}

// target is nil when none was shown.
func (m *lowest) target(targets []Target, chance uint64) *Target {
	if m.n == 0 {
		return nil
	}
	i, _ := bits.Mul64(mix(chance), uint64(m.n))
	return &targets[m.equal[i]]
}

// mix is one step of splitmix64, a cheap generator whose every output is well spread.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// choice is one look at the targets of a route for a query. Its methods are the policies: best is
// nil when all targets are full, and eligible says that the query may go to any.
type choice struct {
	r     *Route
	q     *Query
	start int             // the position at which it begins
	state upstreams.State // that a target must be in
}

// turn goes once around the targets, over those that the query allows in the state.
type turn struct {
	c    choice
	to   int // the position that is looked at next
	left int // positions to look at

	at   int            // the position of the target that next has returned
	load upstreams.Load // its load
	met  bool           // it has returned one
}

func (c *choice) turn(start int) turn { return turn{c: *c, to: start, left: len(c.r.targets)} }

// next returns the next target, or nil behind the last one.
func (w *turn) next() *Target {
	for w.left > 0 {
		w.left--
		w.at = w.to
		if w.to++; w.to == len(w.c.r.targets) {
			w.to = 0
		}
		if t := &w.c.r.targets[w.at]; w.c.q.allows(t, w.c.state) {
			t.readLoad(&w.load, w.c.q)
			w.met = true
			return t
		}
	}
	return nil
}

// passed is how many positions were looked at before the target that next has returned.
func (w *turn) passed() int { return len(w.c.r.targets) - w.left - 1 }

// leastLoaded picks the target that would answer soonest, by what calls have shown of all of those
// with room. While too little is known of one of them, or where they have weights, it picks the one
// with the most room for its weight: so each gets calls that show how fast it is.
func (c *choice) leastLoaded() (best *Target, eligible bool) {
	var byRoom, byTime lowest
	var speed upstreams.Speed
	known, weight := true, 0.0
	w := c.turn(c.start)
	for t := w.next(); t != nil; t = w.next() {
		l := &w.load
		if l.Taken >= l.Limit {
			continue
		}
		byRoom.show(w.at, loadOf(l))
		if weight == 0 {
			weight = l.Weight
		}
		if known = known && l.Weight == weight && t.model.Speed(&speed, c.q.at); known {
			byTime.show(w.at, timeOf(l, &speed, c.q.Tokens))
		}
	}
	if known {
		return byTime.target(c.r.targets, c.q.Rand), w.met
	}
	return byRoom.target(c.r.targets, c.q.Rand), w.met
}

// firstTokens is how many tokens of an answer a pick has in view: enough for the speed of answers
// to count beside the wait for the first one, and few beside an answer, because clients read along.
const firstTokens = 10

// timeOf is how many seconds a call with a prompt of so many tokens would wait for the first tokens
// of its answer: until the prompts ahead of it and its own are read, and the tokens written beside
// the other calls. Calls beyond the places wait for those to end, and a recent failure weighs like
// one of them.
func timeOf(l *upstreams.Load, v *upstreams.Speed, tokens int) float64 {
	calls := float64(l.Active+1) + l.Usual
	unread := float64(l.Unread) + float64(tokens) + (float64(l.Elsewhere)+l.Usual)*v.Unread
	places := float64(max(1, l.Places))
	full := calls / places // to the fourth: next to nothing up to the half, and the time of two calls at the end
	wait := (max(0, calls-places) + 2*full*full*full*full + l.Penalty) / places * v.Answer
	return wait + unread*v.Prefill + firstTokens*v.TokenTime(calls)
}

// nextInTurn picks the first target from the rotating start on, with those that fail lately put
// off: a penalty of one call costs as many turns as the target has slots.
func (c *choice) nextInTurn() (best *Target, eligible bool) {
	var m lowest
	w := c.turn(c.start)
	for t := w.next(); t != nil; t = w.next() {
		turns := float64(w.passed())
		if m.n > 0 && turns > m.score {
			break // no target from here on can have a lower one
		}
		if w.load.Taken < w.load.Limit {
			m.show(w.at, turns+w.load.Penalty*float64(w.load.Limit))
		}
	}
	return m.target(c.r.targets, c.q.Rand), w.met
}

// draws bounds how many targets betterOfTwo looks at to find two that can take the call.
const draws = 8

// betterOfTwo draws two targets that can take the call and picks the less loaded one. It is nil
// when too few of those drawn can: then the whole route is looked at.
func (c *choice) betterOfTwo() *Target {
	var l upstreams.Load
	var first *Target
	q, load, chance := c.q, 0.0, c.q.Rand
	for range draws {
		chance = mix(chance)
		at, _ := bits.Mul64(chance, uint64(len(c.r.targets)))
		t := &c.r.targets[at]
		if t == first || !q.allows(t, c.state) {
			continue
		}
		t.readLoad(&l, q)
		switch {
		case l.Taken >= l.Limit:
		case first == nil:
			first, load = t, loadOf(&l)
		case loadOf(&l) < load:
			return t
		default:
			return first
		}
	}
	return nil
}
