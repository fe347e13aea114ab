package routing

import (
	"encoding/binary"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

const (
	// blockBytes is the granularity of a prefix: about 128 tokens. Engines cache in blocks of 16 to
	// 64 tokens; a coarser grain costs less here and loses at most one block of reuse.
	blockBytes = 512
	// maxPrompt bounds the part of a prompt that is looked at. Agents send 60 to 100 thousand
	// tokens, of which the engine has read all but the last turn: a bound of 128 KiB would take
	// every one of them for a new prompt.
	maxPrompt = 1 << 20
)

// HashBlocks appends to dst the hashes of the prompt's full blocks, each of them of the whole prompt
// up to its block's end: equal hashes mean equal prompts up to there. seed is a hash of what makes
// prompts differ that begin alike: the model, the tools. What lies behind 1 MiB is left out.
//
// Every byte of every prompt comes by here, so it is three instructions for eight bytes, in lanes that
// go on from block to block: nothing is set up or ended for each of them. It is no hash against
// people who look for collisions. They would send their own calls to another engine.
func HashBlocks(dst []uint64, seed uint64, prompt []byte) []uint64 {
	lanes := [4]uint64{seed, mix(seed), mix(seed + 1), mix(seed + 2)}
	for end := min(len(prompt), maxPrompt); end >= blockBytes; end -= blockBytes {
		hashBlock(&lanes, (*[blockBytes]byte)(prompt))
		dst = append(dst, mix(lanes[0]^bits.RotateLeft64(lanes[1], 17)^bits.RotateLeft64(lanes[2], 31)^bits.RotateLeft64(lanes[3], 47)))
		prompt = prompt[blockBytes:]
	}
	return dst
}

// hashBlock takes a block into the lanes, eight bytes into each in turn.
func hashBlock(lanes *[4]uint64, block *[blockBytes]byte) {
	// A product carries a difference up only, the rotation brings it down again.
	const odd, down = 0x9e3779b97f4a7c15, 29
	a, b, c, d := lanes[0], lanes[1], lanes[2], lanes[3]
	for i := 0; i < blockBytes; i += 64 {
		w := block[i : i+64 : i+64]
		a = bits.RotateLeft64((a^binary.LittleEndian.Uint64(w[0:]))*odd, down)
		b = bits.RotateLeft64((b^binary.LittleEndian.Uint64(w[8:]))*odd, down)
		c = bits.RotateLeft64((c^binary.LittleEndian.Uint64(w[16:]))*odd, down)
		d = bits.RotateLeft64((d^binary.LittleEndian.Uint64(w[24:]))*odd, down)
		a = bits.RotateLeft64((a^binary.LittleEndian.Uint64(w[32:]))*odd, down)
		b = bits.RotateLeft64((b^binary.LittleEndian.Uint64(w[40:]))*odd, down)
		c = bits.RotateLeft64((c^binary.LittleEndian.Uint64(w[48:]))*odd, down)
		d = bits.RotateLeft64((d^binary.LittleEndian.Uint64(w[56:]))*odd, down)
	}
	lanes[0], lanes[1], lanes[2], lanes[3] = a, b, c, d
}

// Seed hashes what stands before the messages of a prompt, and whose prompt it is where engines
// keep those apart; owner is empty elsewhere.
func Seed(model, owner string, tools []byte) uint64 {
	seed := mix(xxhash.Sum64String(model)) ^ xxhash.Sum64(tools)
	if owner != "" {
		seed = mix(seed ^ xxhash.Sum64String(owner))
	}
	return seed
}
