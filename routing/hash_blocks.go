package routing

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/cespare/xxhash/v2"
)

const (
	// blockBytes is the number of prompt bytes in a block, which is about 128 tokens. Engines cache
	// in blocks of 16 to 64 tokens. Larger blocks make look-ups cheaper, and lose at most one block
	// of reuse.
	blockBytes = 512
	// maxHashedPrompt is the maximum number of prompt bytes that are hashed. Agents send 60,000 to
	// 100,000 tokens, of which only the last turn is new. If the limit were 128 KiB, each of these
	// prompts would look new.
	maxHashedPrompt = 1 << 20
)

// HashBlocks appends the hashes of the prompt's full blocks to dst. Each hash covers the prompt up
// to the end of its block. If two hashes are equal, the prompts are therefore equal up to that
// point. Hashes are the same at every edge and on every processor. seed is a hash of the model and
// the tools, so that prompts with the same text but different tools are distinguished. Bytes after
// the first 1 MiB are ignored. HashBlocks must be fast, because it processes every byte of every
// prompt. It needs only four instructions per sixteen bytes: it multiplies two words to 128 bits,
// and uses the full product in the next multiplication.
//
// The two halves of a block belong to separate chains that continue in the next block. A processor
// can therefore compute both chains in parallel. The hash is not resistant to deliberate
// collisions. A client that causes a collision only makes its calls go to a different engine.
func HashBlocks(dst []uint64, seed uint64, prompt []byte) []uint64 {
	var chains [2]hashState
	for i := range chains {
		chains[i] = hashState{splitmix64(seed + 2*uint64(i)), splitmix64(seed + 2*uint64(i) + 1)}
	}
	prompt = prompt[:min(len(prompt), maxHashedPrompt)]
	n := len(dst)
	dst = slices.Grow(dst, len(prompt)/blockBytes)[:n+len(prompt)/blockBytes]
	hashBlocks(dst[n:], &chains, prompt, hashSalt)
	return dst
}

// hashSalt is mixed into the two halves of a product alternately. Without it, each zero word would
// add factors of two to the low half and shrink the high half, until the product is zero and all
// earlier words are lost.
const hashSalt = 0x9e3779b97f4a7c15

// hashState is the 128-bit product of all words so far.
type hashState struct{ low, high uint64 }

// hashBlocks sets each hash to the hash of the prompt up to the end of the block. salt must be
// hashSalt. It is a parameter because, with a constant, the compiler would use six instructions
// instead of four: it would swap the halves before every second multiplication.
func hashBlocks(hashes []uint64, chains *[2]hashState, prompt []byte, salt uint64) {
	c, d := chains[0], chains[1]
	for n := range hashes {
		w := (*[blockBytes]byte)(prompt)
		prompt = prompt[blockBytes:]
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[8:]), c.low^loadWord(w[0:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[24:]), c.low^loadWord(w[16:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[40:]), c.low^loadWord(w[32:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[56:]), c.low^loadWord(w[48:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[72:]), c.low^loadWord(w[64:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[88:]), c.low^loadWord(w[80:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[104:]), c.low^loadWord(w[96:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[120:]), c.low^loadWord(w[112:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[136:]), c.low^loadWord(w[128:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[152:]), c.low^loadWord(w[144:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[168:]), c.low^loadWord(w[160:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[184:]), c.low^loadWord(w[176:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[200:]), c.low^loadWord(w[192:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[216:]), c.low^loadWord(w[208:]))
		c.low ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[232:]), c.low^loadWord(w[224:]))
		c.high ^= salt
		c.high, c.low = bits.Mul64(c.high^loadWord(w[248:]), c.low^loadWord(w[240:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[264:]), d.low^loadWord(w[256:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[280:]), d.low^loadWord(w[272:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[296:]), d.low^loadWord(w[288:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[312:]), d.low^loadWord(w[304:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[328:]), d.low^loadWord(w[320:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[344:]), d.low^loadWord(w[336:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[360:]), d.low^loadWord(w[352:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[376:]), d.low^loadWord(w[368:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[392:]), d.low^loadWord(w[384:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[408:]), d.low^loadWord(w[400:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[424:]), d.low^loadWord(w[416:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[440:]), d.low^loadWord(w[432:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[456:]), d.low^loadWord(w[448:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[472:]), d.low^loadWord(w[464:]))
		d.low ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[488:]), d.low^loadWord(w[480:]))
		d.high ^= salt
		d.high, d.low = bits.Mul64(d.high^loadWord(w[504:]), d.low^loadWord(w[496:]))
		hashes[n] = c.low ^ c.high ^ d.low ^ d.high
	}
}

func loadWord(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }

// PromptSeed returns a hash of the model and the tools, which precede a prompt's messages. If
// engines cache prompts separately for each owner, owner is the prompt's owner. Otherwise owner
// must be "".
func PromptSeed(model, owner string, tools []byte) uint64 {
	seed := splitmix64(xxhash.Sum64String(model)) ^ xxhash.Sum64(tools)
	if owner != "" {
		seed = splitmix64(seed ^ xxhash.Sum64String(owner))
	}
	return seed
}
