package routing

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Placement records that a conversation whose prompt ended with Block was sent to Upstream. Both
// fields are hashes. Block hashes are chained (HashBlocks), so later prompts of the conversation
// also contain Block.
type Placement struct{ Block, Upstream uint64 }

// Places contains the placements that a fleet's edges share for a route's conversations. They show
// at which engine each conversation started, and to which engine it moved later. Places is bounded,
// survives reloads and is safe for concurrent use.
type Places struct {
	known *lru.Cache[uint64, place]

	mu    sync.Mutex
	fresh []Placement // placements of this edge that have not been shared yet
}

// place records where the newest prompt that ends with a block was sent.
type place struct {
	upstream uint64
	times    uint32 // how many prompts that end with the block were placed
}

const (
	// placesMost is the maximum number of known placements, about 6 MiB.
	placesMost = 64 << 10
	// freshMost is the maximum number of placements that have not been shared yet. If there are
	// more, the oldest are dropped.
	freshMost = 4096
	// If manyPlaced prompts end with the same block, the block does not belong to a single
	// conversation.
	manyPlaced = 4
)

// PlacesOf returns a route's Places, or nil if it shares none.
func PlacesOf(r *Route) *Places {
	if r.directory == nil {
		return nil
	}
	return r.directory.places.Load()
}

func newPlaces() (*Places, error) {
	known, err := lru.New[uint64, place](placesMost)
	return &Places{known: known}, err
}

// Learn adds placements from the fleet, in the order in which they were shared.
func (p *Places) Learn(told []Placement) {
	for _, t := range told {
		before, _ := p.known.Get(t.Block)
		p.known.Add(t.Block, place{t.Upstream, before.times + 1})
	}
}

// TakeFresh appends the placements to share to dst, and removes them from p.
func (p *Places) TakeFresh(dst []Placement) []Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.fresh...)
	p.fresh = p.fresh[:0]
	return dst
}

// add queues a placement for the other edges. This edge also learns its own placements only in the
// shared order.
func (p *Places) add(t Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fresh) >= freshMost {
		p.fresh = append(p.fresh[:0], p.fresh[1:]...)
	}
	p.fresh = append(p.fresh, t)
}

// placed adds to k the upstream to which other edges sent the newest prompt that is a prefix of
// this one. It ignores a prefix shorter than the locally known one. The caller holds mu.
func (d *directory) placed(places *Places, blocks []uint64, k *knowledge) {
	for at := len(blocks) - 1; at >= max(0, k.blocks()-1); at-- {
		p, found := places.known.Peek(blocks[at])
		if !found || p.times >= manyPlaced {
			continue
		}
		if m, here := d.ranks[p.upstream]; here {
			k.add(at+1, m)
			return
		}
	}
}

// tell queues a placement for the other edges, unless they can infer it because the conversation
// stayed at its engine. begins is the result of directory.learn. A conversation that begins here
// did not stay, even if the engine has its prefix, unless another edge placed it.
func (p *Places) tell(q *search, t *Target, begins bool) {
	if len(q.Prefix) == 0 {
		return
	}
	if n := q.known.n; n > 0 && (!begins || q.known.place == int16(t.member)+1) {
		if last := &q.known.parts[n-1]; last.to > q.known.own() && last.who.has(t.member) {
			return
		}
	}
	p.add(Placement{Block: q.Prefix[len(q.Prefix)-1], Upstream: t.rank})
}
