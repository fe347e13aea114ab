package scheduler

import "sort"

// Pins counts the running requests that hold each block of a prompt: a shared block takes room
// once. Blocks are chained, so a request that holds a block also holds all blocks before it. Pins
// is not safe for concurrent use.
type Pins struct{ holders map[uint64]int32 }

// Fresh returns the number of a prompt's blocks that have no holder.
func (p *Pins) Fresh(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 0 })
}

// Alone returns the number of a holder's blocks that have no other holder.
func (p *Pins) Alone(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 1 })
}

// Hold adds a holder to the blocks, and returns the number of blocks that had no holder before.
func (p *Pins) Hold(blocks []uint64) (fresh int) {
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

// Drop removes a holder from the blocks, and returns the number of blocks without a remaining
// holder.
func (p *Pins) Drop(blocks []uint64) (free int) {
	for _, b := range blocks {
		if p.holders[b]--; p.holders[b] == 0 {
			delete(p.holders, b)
			free++
		}
	}
	return free
}
