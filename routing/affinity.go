package routing

import (
	"encoding/binary"
	"math"

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

// affinity is what a route with the policy prefix_affinity remembers: by upstream, the blocks that were sent there. It
// outlives reloads. Its indexes are safe for concurrent use; the map is not changed after Build.
type affinity map[upstreams.ID]*lru.Cache[uint64, struct{}]

// newAffinity makes an index for every target, or takes over the one that it had.
func newAffinity(targets []Target, keep affinity) (affinity, error) {
	a := make(affinity, len(targets))
	for i := range targets {
		id := targets[i].Upstream.ID()
		if a[id] = keep[id]; a[id] != nil {
			continue
		}
		index, err := lru.New[uint64, struct{}](indexBlocks)
		if err != nil {
			return nil, err
		}
		a[id] = index
	}
	return a, nil
}

// known returns how many leading blocks of the prompt were sent to the upstream before.
func (a affinity) known(id upstreams.ID, blocks []uint64) int {
	index := a[id]
	for i, b := range blocks {
		if !index.Contains(b) {
			return i
		}
	}
	return len(blocks)
}

// learn notes that a prompt was sent to the upstream.
func (a affinity) learn(id upstreams.ID, blocks []uint64) {
	index := a[id]
	for _, b := range blocks {
		index.Add(b, struct{}{})
	}
}

// prefixAffinity scores a target: the longer the known beginning, the better, as long as the engine has a slot free of
// others' work, too: a warm cache behind a queue is slower than a cold engine. Unknown conversations go by rendezvous rank,
// unless that home is loaded well above the mean; then by load.
func prefixAffinity(r *Route, q *Query, t *Target, l *upstreams.Load, mean float64) float64 {
	id := t.Upstream.ID()
	busy := l.Active+l.Others >= l.Limit
	if n := r.affinity.known(id, q.Prefix); n > 0 && !busy {
		return -float64(n) + l.Penalty
	}
	load := leastLoaded(l)
	if busy || len(q.Prefix) == 0 || load > boundedLoad*mean+1/float64(l.Limit) {
		return 1 + load
	}
	return rendezvous(q.Prefix[0], id)
}

// rendezvous ranks an upstream for a key, in [0, 1).
func rendezvous(key uint64, id upstreams.ID) float64 {
	return float64(mix(key^xxhash.Sum64String(string(id)))>>11) / (1 << 53)
}

// meanLoad is the mean score of the targets that may be picked, by which a home's load is judged.
func (r *Route) meanLoad(q *Query) float64 {
	sum, n := 0.0, 0
	for i := range r.targets {
		t := &r.targets[i]
		if !q.excludes(t) && t.Upstream.Eligible(q.Now) && t.Upstream.Serves(t.Served) {
			l := t.Upstream.Load(q.Pool, q.Now)
			sum += leastLoaded(&l)
			n++
		}
	}
	if n == 0 {
		return math.Inf(1)
	}
	return sum / float64(n)
}
