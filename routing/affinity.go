package routing

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/upstreams"
)

// Prefix affinity sends a conversation to where its beginning is cached. A prompt is cut into blocks whose hashes are
// chained, so equal hashes mean equal prompts up to there; each upstream has a bounded index of the blocks that were sent
// to it. The longest known beginning wins. A conversation that nobody knows goes to its rendezvous home, which every edge
// in front of the same engines works out alike without talking to the others.

const (
	// blockBytes is the granularity of a prefix: about 128 tokens. Engines cache in blocks of 16 to 64 tokens; a coarser
	// grain costs less here and loses at most one block of reuse.
	blockBytes = 512
	// maxBlocks bounds the work for a long prompt; what lies behind 128 KiB does not change the choice.
	maxBlocks = 256
	// indexBlocks bounds what is remembered of one upstream: 32 MiB of prompts.
	indexBlocks = 64 << 10
	// boundedLoad is how far above the mean a cold conversation's home may be loaded before the next in rank takes it.
	boundedLoad = 1.25
	// doubt is the penalty (two failures, or the slow start after an outage, which has emptied the cache) above which it does
	// not count what an engine knows.
	doubt = 2
)

// HashBlocks appends the chained hashes of the prompt's whole blocks to dst. seed tells prompts apart that begin alike but
// mean something else: the model, the tools.
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

// Seed hashes what stands before the messages of a prompt.
func Seed(model string, tools []byte) uint64 {
	return mix(xxhash.Sum64String(model)) ^ xxhash.Sum64(tools)
}

// index is what a route with the policy prefix_affinity remembers of one upstream: the blocks that were sent there. It
// outlives reloads and is safe for concurrent use.
type index struct {
	blocks *lru.Cache[uint64, struct{}]
	rank   uint64 // hash of the upstream's id, the same at every edge
}

// remember gives every target an index: the one that its upstream had on the route before a reload, or a new one.
func (r *Route) remember(before *Route) error {
	r.indexes = make(map[upstreams.ID]*index, len(r.targets))
	for i := range r.targets {
		id := r.targets[i].Upstream.ID()
		x := r.indexes[id]
		if x == nil {
			x = before.indexes[id]
		}
		if x == nil {
			blocks, err := lru.New[uint64, struct{}](indexBlocks)
			if err != nil {
				return err
			}
			x = &index{blocks, xxhash.Sum64String(string(id))}
		}
		r.indexes[id], r.targets[i].known = x, x
	}
	return nil
}

// length returns how many leading blocks of the prompt were sent to the upstream before.
func (x *index) length(blocks []uint64) int {
	for i, b := range blocks {
		if !x.blocks.Contains(b) {
			return i
		}
	}
	return len(blocks)
}

// learn notes that a prompt was sent to the upstream.
func (x *index) learn(blocks []uint64) {
	for _, b := range blocks {
		x.blocks.Add(b, struct{}{})
	}
}

// rendezvous ranks the upstream for a key, in [0, 1).
func (x *index) rendezvous(key uint64) float64 {
	return float64(mix(key^x.rank)>>11) / (1 << 53)
}

// warmest returns the target that knows the longest beginning of the prompt, of equals the least loaded. It is nil when the
// choice is not to be made by that: nobody knows any of it, those who do are queueing or failing, or what is known is a
// smaller part, such as a system prompt that many conversations share, and its engine is loaded well above the mean.
// A conversation of its own stays until its home queues. mean is the mean load, for the choice among the cold.
func (r *Route) warmest(q *Query, up may) (best *Target, mean float64) {
	var l upstreams.Load
	longest, least, limit, sum, n := 0, 0.0, 1, 0.0, 0
	for i := range r.targets {
		t := &r.targets[i]
		if !q.allows(t, up) {
			continue
		}
		t.Upstream.ReadLoad(&l, q.Pool, q.Now)
		load := leastLoaded(&l)
		sum += load
		n++
		if queues(&l) || l.Penalty >= doubt {
			continue
		}
		if known := t.known.length(q.Prefix); known > longest || known == longest && known > 0 && load < least {
			best, longest, least, limit = t, known, load, l.Limit
		}
	}
	mean = sum / float64(max(1, n))
	if 2*longest < len(q.Prefix) && overloaded(least, mean, limit) {
		return nil, mean
	}
	return best, mean
}

// cold scores a target for a prompt that is not to go where it is known: by rendezvous rank, unless that home is loaded
// well above the mean; then by load.
func cold(q *Query, t *Target, l *upstreams.Load, mean float64) float64 {
	load := leastLoaded(l)
	if queues(l) || len(q.Prefix) == 0 || overloaded(load, mean, l.Limit) {
		return 1 + load
	}
	return t.known.rendezvous(q.Prefix[0])
}

// overloaded reports whether a load is well above the mean: by more than a quarter and one call.
func overloaded(load, mean float64, limit int) bool {
	return load > boundedLoad*mean+1/float64(limit)
}

// queues reports whether one more call would wait at the engine.
func queues(l *upstreams.Load) bool { return l.Active+l.Others >= l.Limit }
