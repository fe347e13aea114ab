package routing

import (
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
func HashBlocks(dst []uint64, seed uint64, prompt []byte) []uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(seed)
	for end := min(len(prompt), maxPrompt); end >= blockBytes; end -= blockBytes {
		_, _ = d.Write(prompt[:blockBytes]) // it never fails
		dst = append(dst, d.Sum64())
		prompt = prompt[blockBytes:]
	}
	return dst
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

// SessionHash hashes the name that a client gives its session, of any bytes and length. It is never 0,
// and the same at every edge: edges in front of the same engines send a session that none of them
// knows to the same home.
func SessionHash(name []byte) uint64 { return max(xxhash.Sum64(name), 1) }
