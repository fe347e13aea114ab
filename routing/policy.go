package routing

import (
	"math/bits"

	"penstock/config"
	"penstock/upstreams"
)

// scoringPolicy determines how a route scores its targets. The target with the lowest score gets
// the call.
type scoringPolicy uint8

const (
	policyLeastLoaded scoringPolicy = iota
	policyRoundRobin
)

// parsePolicy returns the policy with this name. two_choices and prefix_affinity are older names
// for the default policy.
func parsePolicy(name string) scoringPolicy {
	if name == config.PolicyRoundRobin {
		return policyRoundRobin
	}
	return policyLeastLoaded
}

// lowestScores collects the targets that share the lowest score. pickRandom picks one of them.
type lowestScores struct {
	score     float64
	n         int                     // number of collected targets
	positions [maxEqualTargets]uint16 // positions of the collected targets in the route
}

// maxEqualTargets is the maximum number of targets in lowestScores. In routes with more equal
// targets, the rotating start ensures that every target is picked.
const maxEqualTargets = 64

func (m *lowestScores) addScore(at int, score float64) {
	if m.n == 0 || score < m.score {
		m.score, m.n = score, 0
	}
	if score == m.score && m.n < maxEqualTargets {
		m.positions[m.n] = uint16(at)
		m.n++
	}
}

// pickRandom returns nil if addScore was never called.
func (m *lowestScores) pickRandom(targets []Target, chance uint64) *Target {
	if m.n == 0 {
		return nil
	}
	i, _ := bits.Mul64(splitmix64(chance), uint64(m.n))
	return &targets[m.positions[i]]
}

// splitmix64 is one step of splitmix64, a cheap generator with well-distributed outputs.
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// targetScan is one scan over a route's targets for a query. The methods pickRoundRobin and
// pickSoonest implement the policies. They return best = nil if all targets are full. eligible
// reports whether there is at least one target that the query may use.
type targetScan struct {
	r     *Route
	q     *targetSearch
	start int             // position of the first target
	state upstreams.State // state of the targets to consider
}

// targetIter iterates once over the targets. It yields the targets that are in the scan's state and
// that the query allows.
type targetIter struct {
	c         targetScan
	nextPos   int // next position to check
	remaining int // number of positions still to check

	pos      int            // position in the route of the target last returned by next
	load     upstreams.Load // load of that target
	anyFound bool           // next has returned at least one target
}

func (c *targetScan) iterate(start int) targetIter {
	return targetIter{c: *c, nextPos: start, remaining: len(c.r.targets)}
}

func (w *targetIter) next() *Target {
	for w.remaining > 0 {
		w.remaining--
		w.pos = w.nextPos
		if w.nextPos++; w.nextPos == len(w.c.r.targets) {
			w.nextPos = 0
		}
		if t := &w.c.r.targets[w.pos]; w.c.q.mayUse(t, w.c.state) {
			t.readLoad(&w.load, w.c.q)
			w.anyFound = true
			return t
		}
	}
	return nil
}

// skippedCount returns how many positions were visited before the target last returned by next.
func (w *targetIter) skippedCount() int { return len(w.c.r.targets) - w.remaining - 1 }

// pickRoundRobin picks the first target with a free slot, counting from the rotating start. Targets
// that have recently failed are moved back. A penalty of one call moves a target back by its number
// of slots.
func (c *targetScan) pickRoundRobin() (best *Target, eligible bool) {
	var m lowestScores
	w := c.iterate(c.start)
	for t := w.next(); t != nil; t = w.next() {
		turns := float64(w.skippedCount())
		if m.n > 0 && turns > m.score {
			break // no later target can have a lower score
		}
		if w.load.Taken < w.load.Limit {
			m.addScore(w.pos, turns+w.load.Penalty*float64(w.load.Limit))
		}
	}
	return m.pickRandom(c.r.targets, c.q.Rand), w.anyFound
}
