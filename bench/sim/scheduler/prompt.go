package scheduler

import (
	"encoding/binary"

	"penstock/bench/sim/textgen"
)

// Sizes for counting the tokens of a prompt.
const (
	bytesPerToken = 4
	BlockTokens   = 16
	blockBytes    = BlockTokens * bytesPerToken
	imageTokens   = 256
	MessageTokens = 3 // tokens that a chat template adds to each message
)

// Prompt is a digest of the text in a request: its length, a hash that determines the response, and
// the chained hashes of its full blocks. It does not contain the text.
type Prompt struct {
	Hash   uint64
	Bytes  int
	Extra  int // tokens for images and the template, which are not text
	fill   [blockBytes]byte
	n      int
	Salt   uint64 // cache salt, or 0
	Blocks []uint64
	// Priority is the priority of the request in the queue. The lowest number is served first. If
	// the engine does not order its queue, Priority is 0.
	Priority int
}

// Reset starts a new prompt and reuses the memory of the previous one.
func (p *Prompt) Reset(seed uint64) {
	*p = Prompt{Hash: textgen.MixHash(seed, 0x9e3779b97f4a7c15), Blocks: p.Blocks[:0]}
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
		p.addBlock(p.fill[:])
		p.n = 0
	}
	for len(b) >= blockBytes {
		p.addBlock(b[:blockBytes])
		b = b[blockBytes:]
	}
	p.n = copy(p.fill[:], b)
}

// AddString appends text.
func (p *Prompt) AddString(s string) { p.Add([]byte(s)) }

// AddImage appends an image. The bytes of the image change the hash, but do not make the prompt
// longer.
func (p *Prompt) AddImage(url []byte) {
	h := textgen.Hash(uint64(len(url)), url)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], h)
	p.Add(b[:])
	p.Bytes -= len(b)
	p.Extra += imageTokens
}

func (p *Prompt) addBlock(b []byte) {
	p.Hash = textgen.Hash(p.Hash, b)
	p.Blocks = append(p.Blocks, p.Hash^p.Salt)
}

// Tokens returns the length of the prompt in tokens, which is at least 1.
func (p *Prompt) Tokens() int { return max(1, (p.Bytes+bytesPerToken-1)/bytesPerToken+p.Extra) }

// FullHash returns the hash of the whole prompt.
func (p *Prompt) FullHash() uint64 { return textgen.Hash(p.Hash, p.fill[:p.n]) }
