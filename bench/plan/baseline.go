package plan

import (
	"hash/fnv"
	"slices"

	"penstock/bench/sim/scheduler"
)

// On a fixed fleet, the edge's policies are compared with these baselines. Two baselines are rules
// that other proxies use. A proxy could not implement the other two, because they require the
// contents of the engines' caches and the lengths of future responses.
const (
	leastConn = "least_conn" // nginx: the engine with the fewest requests; equal engines in turn
	// HAProxy: by a hash of the session header; without this header, engines in turn
	sessionHash = "session_hash"
	oracle      = "oracle"    // the engine whose response will flow first
	oracleTwice = "oracle_x2" // like oracle, but the call's unread tokens count twice
)

var baselinePolicies = map[string]func(*fleet, *runningCall) *engine{
	leastConn:   (*fleet).leastConn,
	sessionHash: (*fleet).sessionHash,
	oracle:      func(f *fleet, c *runningCall) *engine { return f.pickSoonest(c, 1) },
	oracleTwice: func(f *fleet, c *runningCall) *engine { return f.pickSoonest(c, 2) },
}

// nextInRotation returns the index of the next engine in rotation.
func (f *fleet) nextInRotation() int {
	f.rotation++
	return f.rotation % len(f.engines)
}

func (f *fleet) leastConn(*runningCall) *engine {
	best, from := -1, f.nextInRotation()
	for i := range f.engines {
		at := (from + i) % len(f.engines)
		if best < 0 || f.engines[at].requestCount() < f.engines[best].requestCount() {
			best = at
		}
	}
	return f.engines[best]
}

func (f *fleet) sessionHash(c *runningCall) *engine {
	if c.session == "" {
		return f.engines[f.nextInRotation()]
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.session))
	return f.engines[(h.Sum64()^f.draw*0x9e3779b97f4a7c15)%uint64(len(f.engines))]
}

// A response counts as flowing after flowingTokens tokens.
const flowingTokens = 10

// pickSoonest returns the engine whose response to the call flows first. Among equal engines, the
// choice is random.
func (f *fleet) pickSoonest(c *runningCall, own float64) *engine {
	best, least, equal := f.engines[0], 0.0, 0
	for _, e := range f.engines {
		t := e.timeToFlowingAnswer(c, own)
		switch {
		case equal == 0 || t < least:
			best, least, equal = e, t, 1
		case t == least:
			if equal++; f.rng.IntN(equal) == 0 {
				best = e
			}
		}
	}
	c.expected = best.cachedTokens(c)
	return best
}

// requestCount returns the number of running and queued requests.
func (e *engine) requestCount() int { return len(e.running) + len(e.waiting) }

// cachedTokens returns how many tokens of a call's prompt are in the engine's cache.
func (e *engine) cachedTokens(c *runningCall) int {
	return min(e.cache.CachedTokens(c.blocks)/scheduler.BlockTokens*traceBlock, c.in-1)
}

// timeToFlowingAnswer returns how long it takes until the engine's response to a call flows. It
// assumes that the call arrives now and that all lengths are known.
func (e *engine) timeToFlowingAnswer(c *runningCall, own float64) float64 {
	unread := func(c *runningCall) float64 { return (c.roomTokens - float64(e.cachedTokens(c))) / e.k.o.PrefillRate }
	line := max(0, e.prefillEnd-e.now)
	for _, w := range e.waiting {
		line += unread(w)
	}
	return max(line, e.timeToSlot(c)) + own*unread(c) + e.k.o.Latency.Seconds() + flowingTokens*e.k.tokenGapSeconds(min(e.requestCount()+1, e.k.o.Slots))
}

// timeToSlot returns how long it takes until a queued call gets a slot and enough room. It assumes
// that no other requests arrive.
func (e *engine) timeToSlot(c *runningCall) float64 {
	slots, room := e.k.o.Slots-len(e.running), float64(e.k.o.KVTokens)-e.usedRoom
	need := e.neededRoom(c)
	for _, w := range e.waiting {
		slots--
		need += e.neededRoom(w)
	}
	if slots > 0 && room >= need || len(e.running) == 0 {
		return 0
	}
	type leaving struct{ in, held float64 }
	var all []leaving
	gap := e.k.tokenGapSeconds(len(e.running))
	for _, r := range e.running {
		left, held := r.tokensLeft, r.ownTokens()+float64(e.pins.CountExclusive(r.fullBlocks())*traceBlock)
		if slices.Contains(e.decoding, r) {
			left = r.endMark - e.decodedTokens
			held += r.tokensLeft - left
		} else if r.firstTokenAt < 0 {
			left = float64(r.out)
		}
		all = append(all, leaving{left * gap, held})
	}
	slices.SortFunc(all, func(a, b leaving) int {
		if a.in < b.in {
			return -1
		}
		return 1
	})
	for _, l := range all {
		slots, room = slots+1, room+l.held
		if slots > 0 && room >= need {
			return l.in
		}
	}
	return all[len(all)-1].in
}
