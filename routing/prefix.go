package routing

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	// blockBytes is the granularity of a prefix: about 128 tokens. Engines cache in blocks of 16 to
	// 64 tokens; a coarser grain costs less here and loses at most one block of reuse.
	blockBytes = 512
	// maxPrompt bounds the part of a prompt that is hashed. Agents send 60 to 100 thousand tokens, of
	// which the engine has read all but the last turn. With a bound of 128 KiB each such prompt would
	// look new.
	maxPrompt = 1 << 20
)

// HashBlocks appends to dst the hashes of the prompt's full blocks. Each hash covers the whole
// prompt up to its block's end: equal hashes mean equal prompts up to there, at every edge and on
// every processor. The parameter seed is a hash of what distinguishes prompts that begin alike: the
// model and the tools. Bytes after the first 1 MiB are left out.
//
// Every byte of every prompt passes here, so sixteen bytes cost three instructions: two words are
// multiplied into 128 bits, and the full product goes into the next multiplication. The two halves
// of a block are separate chains that go on in the next block, so that a processor works on both at
// once. The hash does not withstand deliberate collisions. A client that causes one only sends its
// own calls to another engine.
func HashBlocks(dst []uint64, seed uint64, prompt []byte) []uint64 {
	var chains [2]chain
	for i := range chains {
		chains[i] = chain{mix(seed + 2*uint64(i)), mix(seed + 2*uint64(i) + 1)}
	}
	prompt = prompt[:min(len(prompt), maxPrompt)]
	n := len(dst)
	dst = slices.Grow(dst, len(prompt)/blockBytes)[:n+len(prompt)/blockBytes]
	hashBlocks(dst[n:], &chains, prompt)
	return dst
}

// salt is mixed into the two halves of a product alternately. Without it a run of zeros would
// gather factors of two in the low half and shrink the high half, until the product is zero and all
// earlier words are lost.
const salt = 0x9e3779b97f4a7c15

// chain is the product of all words so far.
type chain struct{ low, high uint64 }

// hashBlocks sets each hash to that of the prompt up to the end of its block.
func hashBlocks(hashes []uint64, chains *[2]chain, prompt []byte) {
	const part = blockBytes / len(chains)
	for n := range hashes {
		block, hash := (*[blockBytes]byte)(prompt[n*blockBytes:]), uint64(0)
		for i := range chains {
			c, w := &chains[i], (*[part]byte)(block[i*part:])
			low, high := c.low, c.high
			high, low = bits.Mul64(high^word(w[8:]), low^word(w[0:])^salt)
			high, low = bits.Mul64(high^word(w[24:])^salt, low^word(w[16:]))
			high, low = bits.Mul64(high^word(w[40:]), low^word(w[32:])^salt)
			high, low = bits.Mul64(high^word(w[56:])^salt, low^word(w[48:]))
			high, low = bits.Mul64(high^word(w[72:]), low^word(w[64:])^salt)
			high, low = bits.Mul64(high^word(w[88:])^salt, low^word(w[80:]))
			high, low = bits.Mul64(high^word(w[104:]), low^word(w[96:])^salt)
			high, low = bits.Mul64(high^word(w[120:])^salt, low^word(w[112:]))
			high, low = bits.Mul64(high^word(w[136:]), low^word(w[128:])^salt)
			high, low = bits.Mul64(high^word(w[152:])^salt, low^word(w[144:]))
			high, low = bits.Mul64(high^word(w[168:]), low^word(w[160:])^salt)
			high, low = bits.Mul64(high^word(w[184:])^salt, low^word(w[176:]))
			high, low = bits.Mul64(high^word(w[200:]), low^word(w[192:])^salt)
			high, low = bits.Mul64(high^word(w[216:])^salt, low^word(w[208:]))
			high, low = bits.Mul64(high^word(w[232:]), low^word(w[224:])^salt)
			high, low = bits.Mul64(high^word(w[248:])^salt, low^word(w[240:]))
			c.low, c.high = low, high
			hash ^= low ^ high
		}
		hashes[n] = hash
	}
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// Seed hashes what precedes the messages of a prompt. It includes the prompt's owner if engines
// keep owners apart; otherwise owner is empty.
func Seed(model, owner string, tools []byte) uint64 {
	seed := mix(xxhash.Sum64String(model)) ^ xxhash.Sum64(tools)
	if owner != "" {
		seed = mix(seed ^ xxhash.Sum64String(owner))
	}
	return seed
}
