package routing

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Placement records that a conversation whose prompt ended with Block was sent to Upstream. Both
// fields are hashes. Block hashes are chained (HashBlocks), so later prompts of the conversation
// also contain Block.
type Placement struct{ Block, Upstream uint64 }

// SharedPlacements contains the placements of a route's conversations that a fleet's edges share.
// They show at which engine each conversation started, and to which engine it moved later. A
// SharedPlacements is bounded, survives reloads and is safe for concurrent use.
type SharedPlacements struct {
	shared *lru.Cache[uint64, lastPlacement]

	mu       sync.Mutex
	unshared []Placement // placements of this edge that have not been shared yet
}

// lastPlacement records to which upstream the newest prompt that ends with a block was sent.
type lastPlacement struct {
	upstream    uint64
	promptCount uint32 // number of shared placements of prompts that end with the block
}

const (
	// maxPlacements is the maximum number of known placements, about 6 MiB.
	maxPlacements = 64 << 10
	// maxUnsharedPlacements is the maximum number of placements that have not been shared yet. If
	// this number is exceeded, the oldest placements are dropped.
	maxUnsharedPlacements = 4096
	// If minSharedBlockPrompts prompts end with the same block, the block does not belong to a
	// single conversation.
	minSharedBlockPrompts = 4
)

// PlacementsOfRoute returns a route's SharedPlacements, or nil if the route shares no placements.
func PlacementsOfRoute(r *Route) *SharedPlacements {
	if r.prefixIndex == nil {
		return nil
	}
	return r.prefixIndex.placements.Load()
}

func newPlacements() (*SharedPlacements, error) {
	known, err := lru.New[uint64, lastPlacement](maxPlacements)
	return &SharedPlacements{shared: known}, err
}

// AddFromFleet adds placements that this edge or other edges have shared, in the order in which
// they were shared.
func (p *SharedPlacements) AddFromFleet(told []Placement) {
	for _, t := range told {
		before, _ := p.shared.Get(t.Block)
		p.shared.Add(t.Block, lastPlacement{t.Upstream, before.promptCount + 1})
	}
}

// TakeUnshared appends the placements that have not been shared yet to dst, and removes them from
// p.
func (p *SharedPlacements) TakeUnshared(dst []Placement) []Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.unshared...)
	p.unshared = p.unshared[:0]
	return dst
}

// queueUnshared queues a placement for the other edges. This edge, too, applies the placement only
// once the fleet has shared it, so all edges apply placements in the same order.
func (p *SharedPlacements) queueUnshared(t Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unshared) >= maxUnsharedPlacements {
		p.unshared = append(p.unshared[:0], p.unshared[1:]...)
	}
	p.unshared = append(p.unshared, t)
}

// applyPlacement adds to k the upstream to which the fleet last sent a prompt that is a prefix of
// this prompt. It ignores prefixes that are shorter than the prefix known to this edge. The caller
// must hold mu.
func (d *prefixIndex) applyPlacement(places *SharedPlacements, blocks []uint64, k *cacheMatch) {
	for at := len(blocks) - 1; at >= max(0, k.knownBlockCount()-1); at-- {
		p, found := places.shared.Peek(blocks[at])
		if !found || p.promptCount >= minSharedBlockPrompts {
			continue
		}
		if m, here := d.memberByRank[p.upstream]; here {
			k.addPlacement(at+1, m)
			return
		}
	}
}

// recordPlacement queues a placement for the other edges. If the conversation stayed at its engine,
// the other edges already know the placement, and nothing is queued. begins is the result of
// prefixIndex.recordPrompt. A conversation that begins here is queued even if the engine has its
// prefix, unless other edges have sent the conversation to the same engine.
func (p *SharedPlacements) recordPlacement(q *targetSearch, t *Target, begins bool) {
	if len(q.Prefix) == 0 {
		return
	}
	if n := q.cached.n; n > 0 && (!begins || q.cached.placedMember == int16(t.engineNumber)+1) {
		if last := &q.cached.parts[n-1]; last.endBlock > q.cached.sharedBlockCount() && last.members.has(t.engineNumber) {
			return
		}
	}
	p.queueUnshared(Placement{Block: q.Prefix[len(q.Prefix)-1], Upstream: t.rankHash})
}
