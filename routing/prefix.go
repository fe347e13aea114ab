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
// multiplied into 128 bits, and the full product goes into the next multiplication. Odd and even
// blocks are separate chains, so that a processor works on two blocks at once. The hash does not
// withstand deliberate collisions. A client that causes one only sends its own calls to another
// engine.
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

// salt is mixed into both halves of every eighth product. Without it a run of zeros would gather
// factors of two in the low half and shrink the high half, until the product is zero and all
// earlier words are lost.
const salt = 0x9e3779b97f4a7c15

// chain is the product of all words so far.
type chain struct{ low, high uint64 }

// hashBlocks sets each hash to that of the prompt up to the end of its block.
func hashBlocks(hashes []uint64, chains *[2]chain, prompt []byte) {
	c, other := chains[0], chains[1]
	for n := range hashes {
		w := (*[blockBytes]byte)(prompt)
		prompt = prompt[blockBytes:]
		c.high, c.low = c.high^salt, c.low^salt
		c.high, c.low = bits.Mul64(c.high^word(w[8:]), c.low^word(w[0:]))
		c.high, c.low = bits.Mul64(c.high^word(w[24:]), c.low^word(w[16:]))
		c.high, c.low = bits.Mul64(c.high^word(w[40:]), c.low^word(w[32:]))
		c.high, c.low = bits.Mul64(c.high^word(w[56:]), c.low^word(w[48:]))
		c.high, c.low = bits.Mul64(c.high^word(w[72:]), c.low^word(w[64:]))
		c.high, c.low = bits.Mul64(c.high^word(w[88:]), c.low^word(w[80:]))
		c.high, c.low = bits.Mul64(c.high^word(w[104:]), c.low^word(w[96:]))
		c.high, c.low = bits.Mul64(c.high^word(w[120:]), c.low^word(w[112:]))
		c.high, c.low = c.high^salt, c.low^salt
		c.high, c.low = bits.Mul64(c.high^word(w[136:]), c.low^word(w[128:]))
		c.high, c.low = bits.Mul64(c.high^word(w[152:]), c.low^word(w[144:]))
		c.high, c.low = bits.Mul64(c.high^word(w[168:]), c.low^word(w[160:]))
		c.high, c.low = bits.Mul64(c.high^word(w[184:]), c.low^word(w[176:]))
		c.high, c.low = bits.Mul64(c.high^word(w[200:]), c.low^word(w[192:]))
		c.high, c.low = bits.Mul64(c.high^word(w[216:]), c.low^word(w[208:]))
		c.high, c.low = bits.Mul64(c.high^word(w[232:]), c.low^word(w[224:]))
		c.high, c.low = bits.Mul64(c.high^word(w[248:]), c.low^word(w[240:]))
		c.high, c.low = c.high^salt, c.low^salt
		c.high, c.low = bits.Mul64(c.high^word(w[264:]), c.low^word(w[256:]))
		c.high, c.low = bits.Mul64(c.high^word(w[280:]), c.low^word(w[272:]))
		c.high, c.low = bits.Mul64(c.high^word(w[296:]), c.low^word(w[288:]))
		c.high, c.low = bits.Mul64(c.high^word(w[312:]), c.low^word(w[304:]))
		c.high, c.low = bits.Mul64(c.high^word(w[328:]), c.low^word(w[320:]))
		c.high, c.low = bits.Mul64(c.high^word(w[344:]), c.low^word(w[336:]))
		c.high, c.low = bits.Mul64(c.high^word(w[360:]), c.low^word(w[352:]))
		c.high, c.low = bits.Mul64(c.high^word(w[376:]), c.low^word(w[368:]))
		c.high, c.low = c.high^salt, c.low^salt
		c.high, c.low = bits.Mul64(c.high^word(w[392:]), c.low^word(w[384:]))
		c.high, c.low = bits.Mul64(c.high^word(w[408:]), c.low^word(w[400:]))
		c.high, c.low = bits.Mul64(c.high^word(w[424:]), c.low^word(w[416:]))
		c.high, c.low = bits.Mul64(c.high^word(w[440:]), c.low^word(w[432:]))
		c.high, c.low = bits.Mul64(c.high^word(w[456:]), c.low^word(w[448:]))
		c.high, c.low = bits.Mul64(c.high^word(w[472:]), c.low^word(w[464:]))
		c.high, c.low = bits.Mul64(c.high^word(w[488:]), c.low^word(w[480:]))
		c.high, c.low = bits.Mul64(c.high^word(w[504:]), c.low^word(w[496:]))
		hashes[n] = c.low ^ c.high ^ other.low ^ other.high
		c, other = other, c
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
