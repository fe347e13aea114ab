package routing

import (
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// Placement records that a conversation whose prompt ended with Block was sent to Upstream. Both
// fields are hashes. Block hashes are chained (HashBlocks), so later prompts of the conversation
// also contain Block.
type Placement struct{ Block, Upstream uint64 }

// Placements contains the placements that a fleet's edges share for a route's conversations. They show
// at which engine each conversation started, and to which engine it moved later. Places is bounded,
// survives reloads and is safe for concurrent use.
type Placements struct {
	shared *lru.Cache[uint64, lastPlacement]

	mu       sync.Mutex
	unshared []Placement // placements of this edge that have not been shared yet
}

// lastPlacement records where the newest prompt that ends with a block was sent.
type lastPlacement struct {
	upstream    uint64
	promptCount uint32 // how many prompts that end with the block were placed
}

const (
	// maxPlacements is the maximum number of known placements, about 6 MiB.
	maxPlacements = 64 << 10
	// maxUnsharedPlacements is the maximum number of placements that have not been shared yet. If there are
	// more, the oldest are dropped.
	maxUnsharedPlacements = 4096
	// If sharedBlockCount prompts end with the same block, the block does not belong to a single
	// conversation.
	sharedBlockCount = 4
)

// RoutePlacements returns a route's Places, or nil if it shares none.
func RoutePlacements(r *Route) *Placements {
	if r.prefixIndex == nil {
		return nil
	}
	return r.prefixIndex.placements.Load()
}

func newPlacements() (*Placements, error) {
	known, err := lru.New[uint64, lastPlacement](maxPlacements)
	return &Placements{shared: known}, err
}

// AddFromFleet adds placements from the fleet, in the order in which they were shared.
func (p *Placements) AddFromFleet(told []Placement) {
	for _, t := range told {
		before, _ := p.shared.Get(t.Block)
		p.shared.Add(t.Block, lastPlacement{t.Upstream, before.promptCount + 1})
	}
}

// TakeUnshared appends the placements to share to dst, and removes them from p.
func (p *Placements) TakeUnshared(dst []Placement) []Placement {
	p.mu.Lock()
	defer p.mu.Unlock()
	dst = append(dst, p.unshared...)
	p.unshared = p.unshared[:0]
	return dst
}

// queueUnshared queues a placement for the other edges. This edge also learns its own placements only in the
// shared order.
func (p *Placements) queueUnshared(t Placement) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.unshared) >= maxUnsharedPlacements {
		p.unshared = append(p.unshared[:0], p.unshared[1:]...)
	}
	p.unshared = append(p.unshared, t)
}

// applyPlacement adds to k the upstream to which other edges sent the newest prompt that is a prefix of
// this one. It ignores a prefix shorter than the locally known one. The caller holds mu.
func (d *prefixIndex) applyPlacement(places *Placements, blocks []uint64, k *cacheMatch) {
	for at := len(blocks) - 1; at >= max(0, k.knownBlocks()-1); at-- {
		p, found := places.shared.Peek(blocks[at])
		if !found || p.promptCount >= sharedBlockCount {
			continue
		}
		if m, here := d.memberByRank[p.upstream]; here {
			k.addPlacement(at+1, m)
			return
		}
	}
}

// recordPlacement queues a placement for the other edges, unless they can infer it because the conversation
// stayed at its engine. begins is the result of directory.learn. A conversation that begins here
// did not stay, even if the engine has its prefix, unless another edge placed it.
func (p *Placements) recordPlacement(q *search, t *Target, begins bool) {
	if len(q.Prefix) == 0 {
		return
	}
	if n := q.cached.n; n > 0 && (!begins || q.cached.placedMember == int16(t.member)+1) {
		if last := &q.cached.parts[n-1]; last.endBlock > q.cached.sharedBlocks() && last.members.has(t.member) {
			return
		}
	}
	p.queueUnshared(Placement{Block: q.Prefix[len(q.Prefix)-1], Upstream: t.rankHash})
}
