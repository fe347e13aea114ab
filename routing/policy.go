package routing

import (
	"math/bits"

	"penstock/config"
	"penstock/upstreams"
)

// policy determines how a route scores its targets. The target with the lowest score gets the call.
type policy uint8

const (
	policyLeastLoaded policy = iota
	policyRoundRobin
)

// policyOf returns the policy with this name. two_choices and prefix_affinity are older names of
// the default policy, which covers both.
func policyOf(name string) policy {
	if name == config.PolicyRoundRobin {
		return policyRoundRobin
	}
	return policyLeastLoaded
}

// lowest collects the targets with the lowest score. target picks one of them at random.
type lowest struct {
	score float64
	n     int              // number of collected targets
	equal [maxEqual]uint16 // positions of the collected targets in the route
}

// maxEqual is the maximum number of equal targets among which to choose. In larger routes, the
// rotating start gives every target its turn.
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

// target returns nil if show was never called.
func (m *lowest) target(targets []Target, chance uint64) *Target {
	if m.n == 0 {
		return nil
	}
	i, _ := bits.Mul64(mix(chance), uint64(m.n))
	return &targets[m.equal[i]]
}

// mix is one step of splitmix64, a cheap generator with well-distributed outputs.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// choice is one scan over a route's targets for a query. The policies are its methods nextInTurn
// and soonest. They return best = nil if all targets are full. eligible reports whether there is at
// least one target that the query may use.
type choice struct {
	r     *Route
	q     *search
	start int             // position of the first target
	state upstreams.State // state that a target must be in
}

// turn iterates once over the targets. It yields those that are in the required state and that the
// query allows.
type turn struct {
	c    choice
	to   int // next position to check
	left int // number of positions still to check

	at   int            // position of the target last returned by next
	load upstreams.Load // load of that target
	met  bool           // next has returned at least one target
}

func (c *choice) turn(start int) turn { return turn{c: *c, to: start, left: len(c.r.targets)} }

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

// passed returns how many positions precede the target last returned by next.
func (w *turn) passed() int { return len(w.c.r.targets) - w.left - 1 }

// nextInTurn picks the first target, counting from the rotating start. It moves targets that have
// recently failed back. A penalty of one call moves a target back by its number of slots.
func (c *choice) nextInTurn() (best *Target, eligible bool) {
	var m lowest
	w := c.turn(c.start)
	for t := w.next(); t != nil; t = w.next() {
		turns := float64(w.passed())
		if m.n > 0 && turns > m.score {
			break // no later target can have a lower score
		}
		if w.load.Taken < w.load.Limit {
			m.show(w.at, turns+w.load.Penalty*float64(w.load.Limit))
		}
	}
	return m.target(c.r.targets, c.q.Rand), w.met
}
