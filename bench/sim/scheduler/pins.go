package scheduler

import "sort"

// Pins counts by how many running requests each block of prompts is held: a block that several hold
// takes room once. Blocks are chained, so whoever holds one holds all those before it. It is not
// safe for concurrent use.
type Pins struct{ holders map[uint64]int32 }

// Fresh is how many of a prompt's blocks nobody holds.
func (p *Pins) Fresh(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 0 })
}

// Alone is how many blocks of a holder no other one holds.
func (p *Pins) Alone(blocks []uint64) int {
	return len(blocks) - sort.Search(len(blocks), func(i int) bool { return p.holders[blocks[i]] == 1 })
}

// Hold counts a holder of blocks, and is how many of them had none.
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

// Drop takes a holder of blocks away, and is how many of them have none left.
func (p *Pins) Drop(blocks []uint64) (free int) {
	for _, b := range blocks {
		if p.holders[b]--; p.holders[b] == 0 {
			delete(p.holders, b)
			free++
		}
	}
	return free
}
