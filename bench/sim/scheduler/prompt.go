package scheduler

import (
	"encoding/binary"

	"penstock/bench/sim/textgen"
)

// The sizes for counting a prompt, in bytes and in tokens.
const (
	bytesPerToken = 4
	BlockTokens   = 16
	blockBytes    = BlockTokens * bytesPerToken
	imageTokens   = 256
	MessageTokens = 3 // tokens that a chat template adds around each message
)

// Prompt is the digest of a request's text: its length, a hash that determines the answer, and the
// chained hashes of its full blocks. The text itself is not kept.
type Prompt struct {
	Hash   uint64
	Bytes  int
	Extra  int // tokens that are not text: images, template
	fill   [blockBytes]byte
	n      int
	Salt   uint64 // of the cache; 0: none
	Blocks []uint64
	// Priority is the request's priority in the queue, lowest first; 0 if the engine does not order
	// its queue.
	Priority int
}

// Reset starts a new prompt and reuses the last prompt's memory.
func (p *Prompt) Reset(seed uint64) {
	*p = Prompt{Hash: textgen.Mix(seed, 0x9e3779b97f4a7c15), Blocks: p.Blocks[:0]}
}

// Add appends text.
func (p *Prompt) Add(b []byte) {
	p.Bytes += len(b)
	if p.n > 0 {
		k := copy(p.fill[p.n:], b)
		p.n += k
		b = b[k:]
		if p.n < blockBytes {
			return
		}
		p.block(p.fill[:])
		p.n = 0
	}
	for len(b) >= blockBytes {
		p.block(b[:blockBytes])
		b = b[blockBytes:]
	}
	p.n = copy(p.fill[:], b)
}

// AddString appends text.
func (p *Prompt) AddString(s string) { p.Add([]byte(s)) }

// Image appends a picture: its bytes enter the hash but do not lengthen the prompt.
func (p *Prompt) Image(url []byte) {
	h := textgen.Hash(uint64(len(url)), url)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], h)
	p.Add(b[:])
	p.Bytes -= len(b)
	p.Extra += imageTokens
}

func (p *Prompt) block(b []byte) {
	p.Hash = textgen.Hash(p.Hash, b)
	p.Blocks = append(p.Blocks, p.Hash^p.Salt)
}

// Tokens returns the length of the prompt, at least 1.
func (p *Prompt) Tokens() int { return max(1, (p.Bytes+bytesPerToken-1)/bytesPerToken+p.Extra) }

// Sum returns the hash of the whole prompt.
func (p *Prompt) Sum() uint64 { return textgen.Hash(p.Hash, p.fill[:p.n]) }
