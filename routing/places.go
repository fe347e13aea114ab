package routing

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Placement says that a conversation whose prompt ended with a block was sent to an upstream. Both
// are hashes: the block's is chained (HashBlocks), so the conversation's later prompts hold it,
// too.
type Placement struct{ Block, Upstream uint64 }

// Places are what the edges of a fleet tell each other of a route's conversations: where each
// began, and where it went when it left that engine. They are bounded, outlive reloads and are
// safe for concurrent use.
type Places struct {
	known *lru.Cache[uint64, place]

	mu    sync.Mutex
	fresh []Placement // of this edge, that the others have not been told
}

// place is where the newest conversation went whose prompt ended with a block.
type place struct {
	upstream uint64
	times    uint32 // that such a prompt was placed
}

const (
	// placesMost bounds the placements that are known, some 6 MiB.
	placesMost = 64 << 10
	// freshMost bounds those that wait to be told; the oldest are given up.
	freshMost = 4096
	// manyPlaced is how many prompts that end with one block show that it is no conversation's own.
	manyPlaced = 4
)

// PlacesOf returns the places of a route; nil where it tells none.
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

// Learn takes over what other edges have told, in the order in which they have.
func (p *Places) Learn(told []Placement) {
	for _, t := range told {
		before, _ := p.known.Get(t.Block)
		p.known.Add(t.Block, place{t.Upstream, before.times + 1})
	}
}

// TakeFresh appends to dst what the others are to be told.
func (p *Places) TakeFresh(dst []Placement) []Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.fresh...)
	p.fresh = p.fresh[:0]
	return dst
}

// add has the others told of a placement. This edge learns of it with them, in the same order.
func (p *Places) add(t Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fresh) >= freshMost {
		p.fresh = append(p.fresh[:0], p.fresh[1:]...)
	}
	p.fresh = append(p.fresh, t)
}

// placed adds to k who holds a prompt by what other edges have told: the upstream at which the newest
// conversation is whose prompt was a beginning of this one, and no shorter one than is known here.
// The caller holds mu.
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

// tell has the other edges told that a prompt was sent to an upstream, unless they can know it: a
// conversation stays where it was.
func (p *Places) tell(q *Query, t *Target) {
	if len(q.Prefix) == 0 {
		return
	}
	if n := q.known.n; n > 0 {
		if last := &q.known.parts[n-1]; last.to > q.known.own() && last.who.has(t.member) {
			return
		}
	}
	p.add(Placement{Block: q.Prefix[len(q.Prefix)-1], Upstream: t.rank})
}
