package routing

import (
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	lru "github.com/hashicorp/golang-lru/v2"

	"penstock/upstreams"
)

// directory is what a route with the policy prefix_affinity remembers: for each block of a prompt
// the upstreams that it was sent to. It is bounded, outlives reloads and is safe for concurrent
// use.
//
// One directory for the route, and not an index for each upstream: the question is who knows the
// prompt, and one look-up answers it for all of them.
type directory struct {
	blocks *lru.Cache[uint64, *holders]
	// numbers are the members' places in holders, the same for as long as a name of an upstream is
	// used. Not changed after Build: a reload makes another map over the same blocks.
	numbers map[upstreams.ID]member
	ranks   map[uint64]member // the same by Target.rank
	places  *Places           // what the edges of a fleet tell each other; nil: there is no store
}

const (
	// directoryBlocks bounds what is remembered for each upstream of the route, on average: 16 MiB
	// of prompts, about four million tokens, which is more than an engine can cache.
	directoryBlocks = 32 << 10
	// maxMembers is how many upstreams have a place of their own. In a larger route some share one,
	// and a conversation may go to the wrong one of those.
	maxMembers = 128
)

// member is an upstream's place in a set of members.
type member uint8

// members is a set of upstreams of a route.
type members [maxMembers / 64]uint64

func (s *members) has(m member) bool { return s[m/64]>>(m%64)&1 != 0 }

func (s *members) add(more *members) {
	for i := range s {
		s[i] |= more[i]
	}
}

// holders are the upstreams that a block was sent to. They also record whether many conversations
// begin with the block, or one goes through it.
type holders struct {
	sent  [maxMembers / 64]atomic.Uint64
	next  atomic.Uint64 // the block that followed first; 0: none yet
	forks atomic.Uint32 // prompts that went on otherwise
	ends  atomic.Uint32 // prompts that ended here
}

func (h *holders) add(m member) {
	if bit := uint64(1) << (m % 64); h.sent[m/64].Load()&bit == 0 {
		h.sent[m/64].Or(bit)
	}
}

// follow notes how a prompt went on after the block.
func (h *holders) follow(rest []uint64) {
	if len(rest) == 0 {
		h.ends.Add(1)
	} else if !h.next.CompareAndSwap(0, rest[0]) && h.next.Load() != rest[0] {
		h.forks.Add(1)
	}
}

// crowd says how a prompt that is known up to the block, and goes on with rest, relates to the
// others that are: it is one conversation's next turn, one of few that have a beginning in common,
// or one of many.
func (h *holders) crowd(rest []uint64) crowd {
	next, forks := h.next.Load(), h.forks.Load()
	switch {
	case len(rest) > 0 && forks >= manyForks, len(rest) == 0 && h.ends.Load() >= manyEnds:
		return many
	case len(rest) > 0 && next != 0 && next != rest[0]:
		return few
	}
	return alone
}

type crowd uint8

const (
	alone crowd = iota
	few
	many
)

const (
	// manyForks is how many prompts have to leave a common beginning before it is worth having
	// everywhere: it is then read once by each engine, and the conversations are spread over all of
	// them from their first turn on.
	manyForks = 4
	// manyEnds is the same for prompts that do not differ by a whole block. More, since the short
	// turns of one conversation end in one block as well.
	manyEnds = 16
)

// without returns the holders that are not in a set, and whether there are any.
func (h *holders) without(not *members) (left members, some bool) {
	for i := range left {
		left[i] = h.sent[i].Load() &^ not[i]
		some = some || left[i] != 0
	}
	return left, some
}

// newDirectory makes the directory of targets, or goes on with the one that the route had before,
// which may be nil.
func newDirectory(targets []Target, before *directory, shared bool) (*directory, error) {
	d := &directory{numbers: map[upstreams.ID]member{}, ranks: map[uint64]member{}}
	taken := make([]bool, maxMembers)
	if before != nil {
		for i := range targets {
			if m, ok := before.numbers[targets[i].Upstream.ID()]; ok {
				d.numbers[targets[i].Upstream.ID()], taken[m] = m, true
			}
		}
	}
	next := 0
	for i := range targets {
		t := &targets[i]
		m, ok := d.numbers[t.Upstream.ID()]
		if !ok {
			// A place that another upstream had before is as good as a fresh one: the newcomer is
			// thought to know what that one knew, and gets to know it.
			for k := 0; k < maxMembers && taken[next%maxMembers]; k++ {
				next++
			}
			m = member(next % maxMembers)
			next++
			d.numbers[t.Upstream.ID()], taken[m] = m, true
		}
		t.member, t.rank = m, xxhash.Sum64String(string(t.Upstream.ID()))
		d.ranks[t.rank] = m
	}
	if shared {
		if err := d.share(before); err != nil {
			return nil, err
		}
	}
	size := directoryBlocks * max(1, len(d.numbers))
	if before != nil {
		d.blocks = before.blocks
		d.blocks.Resize(size)
		return d, nil
	}
	var err error
	d.blocks, err = lru.New[uint64, *holders](size)
	return d, err
}

// share goes on with the places that the route had before, or makes some.
func (d *directory) share(before *directory) (err error) {
	if before != nil && before.places != nil {
		d.places = before.places
		return nil
	}
	d.places, err = newPlaces()
	return err
}

// deepest returns how many leading blocks of a prompt some upstream outside of a set knows, who
// knows that many, and how many prompts share them. What is known of a prompt is a beginning of it,
// since learn keeps its first blocks longest; so the end of it is found by halving.
func (d *directory) deepest(blocks []uint64, not *members) (known int, who members, shared crowd) {
	var last *holders
	low, high := 0, len(blocks) // low are known
	for low < high {
		at := (low + high) / 2
		h, ok := d.blocks.Peek(blocks[at])
		if ok {
			var left members
			if left, ok = h.without(not); ok {
				who, last = left, h
			}
		}
		if ok {
			low = at + 1
		} else {
			high = at
		}
	}
	if d.places != nil {
		if deeper, at, ok := d.placed(blocks, low, not); ok {
			return deeper, at, alone
		}
	}
	if last != nil {
		shared = last.crowd(blocks[low:])
	}
	return low, who, shared
}

// learn notes that a prompt was sent to an upstream. The first blocks come last, so that they are
// forgotten last.
func (d *directory) learn(blocks []uint64, m member) {
	for i := len(blocks) - 1; i >= 0; i-- {
		h, ok := d.blocks.Get(blocks[i])
		if !ok {
			h = new(holders)
			if before, found, _ := d.blocks.PeekOrAdd(blocks[i], h); found {
				h = before
			}
		}
		h.add(m)
		h.follow(blocks[i+1:])
	}
}
