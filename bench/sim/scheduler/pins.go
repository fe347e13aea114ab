package scheduler

import "sort"

// BlockPins counts how many running requests hold each block, so that a shared block needs room
// only once. Blocks are chained, so a request that holds a block also holds all blocks before it.
// BlockPins is not safe for concurrent use.
type BlockPins struct{ holders map[uint64]int32 }

// CountUnheld returns how many of the blocks have no holder.
func (p *BlockPins) CountUnheld(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 0 })
}

// CountExclusive returns how many of a holder's blocks have no other holder.
func (p *BlockPins) CountExclusive(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 1 })
}

// AddHolder adds a holder to the blocks. It returns how many of the blocks had no holder before.
func (p *BlockPins) AddHolder(blocks []uint64) (fresh int) {
	if p.holders == nil {
		p.holders = map[uint64]int32{}
	}
	for _, b := range blocks {
		if p.holders[b]++; p.holders[b] == 1 {
			fresh++
		}
	}
	return fresh
}

// RemoveHolder removes a holder from the blocks. It returns how many of the blocks have no holder
// afterwards.
func (p *BlockPins) RemoveHolder(blocks []uint64) (free int) {
	for _, b := range blocks {
		if p.holders[b]--; p.holders[b] == 0 {
			delete(p.holders, b)
			free++
		}
	}
	return free
}
