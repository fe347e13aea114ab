package routing

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"penstock/upstreams"
)

// Prefix affinity sends a conversation to where its beginning is cached. A prompt is cut into
// blocks whose hashes are chained, so equal hashes mean equal prompts up to there; a bounded
// directory (directory.go) remembers which upstreams each block was sent to. The longest known
// beginning wins. A conversation that no engine knows goes to its rendezvous home, which is the
// same at every edge in front of the same engines.

const (
	// blockBytes is the granularity of a prefix: about 128 tokens. Engines cache in blocks of 16 to
	// 64 tokens; a coarser grain costs less here and loses at most one block of reuse.
	blockBytes = 512
	// maxBlocks bounds the work for a long prompt; what lies behind 128 KiB does not change the
	// choice.
	maxBlocks = 256
	// boundedLoad is how far above the mean a cold conversation's home may be loaded before the
	// next in rank takes it.
	boundedLoad = 1.25
	// doubt is the penalty above which an engine's known prompts do not count: two failures, or the
	// slow start after an outage, which has emptied its cache.
	doubt = 2
)

// HashBlocks appends the chained hashes of the prompt's full blocks to dst. seed is a hash of what
// makes prompts differ that begin alike: the model, the tools.
func HashBlocks(dst []uint64, seed uint64, prompt []byte) []uint64 {
	var chained [8 + blockBytes]byte
	h := seed
	for range maxBlocks {
		if len(prompt) < blockBytes {
			break
		}
		binary.LittleEndian.PutUint64(chained[:8], h)
		copy(chained[8:], prompt[:blockBytes])
		h = xxhash.Sum64(chained[:])
		dst = append(dst, h)
		prompt = prompt[blockBytes:]
	}
	return dst
}

// Seed hashes what stands before the messages of a prompt, and whose prompt it is where engines
// keep those apart; owner is empty elsewhere.
func Seed(model, owner string, tools []byte) uint64 {
	seed := mix(xxhash.Sum64String(model)) ^ xxhash.Sum64(tools)
	if owner != "" {
		seed = mix(seed ^ xxhash.Sum64String(owner))
	}
	return seed
}

// warmest returns the target that knows the longest beginning of the prompt, and the least loaded
// one of several. A conversation of its own stays until its home queues. The target is nil when no
// engine knows a beginning, when those that do are queueing or failing, when many conversations
// share it, or when few do and its engine is loaded well above the mean. own is then the prompt's
// own part.
func (c *choice) warmest() (best *Target, own []uint64) {
	var l upstreams.Load
	var not members
	q := c.q
	own = q.Prefix
	for {
		known, who, shared := c.r.directory.deepest(q.Prefix, &not)
		if known == 0 {
			return nil, own
		}
		if shared == many {
			return nil, q.Prefix[known:]
		}
		best = nil
		least, limit := 0.0, 1
		for i := range c.r.targets {
			t := &c.r.targets[i]
			if !who.has(t.member) || !q.allows(t, c.state) {
				continue
			}
			t.readLoad(&l, q)
			if queues(&l) || l.Penalty >= doubt {
				continue
			}
			if load := loadOf(&l); best == nil || load < least {
				best, least, limit = t, load, room(&l)
			}
		}
		switch {
		case best == nil:
			not.add(&who)
		case (shared == few || 2*known < len(q.Prefix)) && overloaded(least, c.mean(), limit):
			return nil, q.Prefix[known:]
		default:
			return best, nil
		}
	}
}

// mean is the mean load of the targets in a state.
func (c *choice) mean() float64 {
	sum, n := 0.0, 0
	w := c.turn(0)
	for t := w.next(); t != nil; t = w.next() {
		sum += loadOf(&w.load)
		n++
	}
	return sum / float64(max(1, n))
}

// home picks for a prompt that has no warmest target. It returns the first in rendezvous rank for
// the prompt's own part that neither queues nor is loaded well above the mean, and the least loaded
// if there is none.
func (c *choice) home(own []uint64) (best *Target, eligible bool) {
	if len(own) == 0 {
		return c.leastLoaded()
	}
	key, rank, load, limit, sum, n := own[0], uint64(0), 0.0, 1, 0.0, 0
	w := c.turn(0)
	for t := w.next(); t != nil; t = w.next() {
		n++
		now := loadOf(&w.load)
		sum += now
		if v := mix(key ^ t.rank); !queues(&w.load) && (best == nil || v < rank) {
			best, rank, load, limit = t, v, now, room(&w.load)
		}
	}
	if best != nil && !overloaded(load, sum/float64(n), limit) {
		return best, true
	}
	return c.next(key, sum/float64(max(1, n)))
}

// next is home where the first in rank is not to be used; mean is the mean load.
func (c *choice) next(key uint64, mean float64) (best *Target, eligible bool) {
	var m lowest
	w := c.turn(c.start)
	for t := w.next(); t != nil; t = w.next() {
		switch load := loadOf(&w.load); {
		case w.load.Taken >= w.load.Limit:
		case queues(&w.load) || overloaded(load, mean, room(&w.load)):
			m.show(w.at, 1+load)
		default:
			m.show(w.at, float64(mix(key^t.rank)>>11)/(1<<53))
		}
	}
	return m.target(c.r.targets, c.q.Rand), w.met
}

// overloaded reports whether a load is well above the mean: by more than a quarter and one call.
func overloaded(load, mean float64, limit int) bool {
	return load > boundedLoad*mean+1/float64(limit)
}

// queues reports whether one more call would wait at the engine.
func queues(l *upstreams.Load) bool { return l.Active+l.Others >= room(l) }

// room is how many calls this edge may have at the engine without a wait there.
func room(l *upstreams.Load) int { return min(l.Limit, l.Places) }
