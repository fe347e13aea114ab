package sim

import (
	"encoding/binary"
	"sync"

	"penstock/bench/sim/textgen"
)

const (
	bytesPerToken = 4
	blockTokens   = 16
	blockBytes    = blockTokens * bytesPerToken
	imageTokens   = 256
	messageTokens = 3 // what a chat template adds around each message
)

// prompt is what a request says, boiled down: its length, a hash that the answer depends on, and
// the chained hashes of its whole blocks. The text itself is not kept.
type prompt struct {
	hash   uint64
	bytes  int
	extra  int // tokens that are not text: images, template
	fill   [blockBytes]byte
	n      int
	salt   uint64 // of the cache; 0: none
	blocks []uint64
}

func (p *prompt) reset(seed uint64) {
	*p = prompt{hash: textgen.Mix(seed, 0x9e3779b97f4a7c15), blocks: p.blocks[:0]}
}

// add appends text.
func (p *prompt) add(b []byte) {
	p.bytes += len(b)
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

func (p *prompt) addString(s string) { p.add([]byte(s)) }

// image appends a picture: its identity counts, its bytes do not make the prompt longer.
func (p *prompt) image(url []byte) {
	h := textgen.Hash(uint64(len(url)), url)
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], h)
	p.add(b[:])
	p.bytes -= len(b)
	p.extra += imageTokens
}

func (p *prompt) block(b []byte) {
	p.hash = textgen.Hash(p.hash, b)
	p.blocks = append(p.blocks, p.hash^p.salt)
}

// tokens is the length of the prompt, at least 1.
func (p *prompt) tokens() int { return max(1, (p.bytes+bytesPerToken-1)/bytesPerToken+p.extra) }

// sum is the hash of all of it.
func (p *prompt) sum() uint64 { return textgen.Hash(p.hash, p.fill[:p.n]) }

// prefixCache remembers the blocks of prompts that were read, and forgets the least recently used
// ones, of a prompt the last ones first, as engines do. The list of uses is threaded through one
// slice by positions: nothing is allocated once it has its size.
type prefixCache struct {
	mu        sync.Mutex
	max       int // blocks; 0: no cache
	at        map[uint64]int32
	uses      []cachedBlock // uses[0] is the list's head: next is the newest, before the oldest
	asked, in int64
}

type cachedBlock struct {
	block        uint64
	next, before int32
}

func newPrefixCache(tokens int) *prefixCache {
	c := &prefixCache{}
	if tokens > 0 {
		c.max = max(1, tokens/blockTokens)
		c.empty()
	}
	return c
}

func (c *prefixCache) empty() { c.at, c.uses = map[uint64]int32{}, make([]cachedBlock, 1) }

// cached is how many tokens at the start of a prompt of the given length need not be read again.
// The last token always is, as in real engines.
func (c *prefixCache) cached(blocks []uint64, tokens int) int {
	if c.max == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, b := range blocks {
		if _, ok := c.at[b]; !ok {
			break
		}
		n++
	}
	n = min(n*blockTokens, tokens-1)
	c.asked += int64(tokens)
	c.in += int64(n)
	return n
}

// insert remembers blocks as just used.
func (c *prefixCache) insert(blocks []uint64) {
	if c.max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(blocks) - 1; i >= 0; i-- {
		c.touch(blocks[i])
	}
}

func (c *prefixCache) touch(block uint64) {
	at, ok := c.at[block]
	switch {
	case ok:
		c.unlink(at)
	case len(c.uses) <= c.max:
		at = int32(len(c.uses))
		c.uses = append(c.uses, cachedBlock{})
	default: // in place of the oldest
		at = c.uses[0].before
		c.unlink(at)
		delete(c.at, c.uses[at].block)
	}
	c.at[block] = at
	newest := c.uses[0].next
	c.uses[at] = cachedBlock{block: block, next: newest}
	c.uses[newest].before, c.uses[0].next = at, at
}

func (c *prefixCache) unlink(at int32) {
	u := c.uses[at]
	c.uses[u.before].next, c.uses[u.next].before = u.next, u.before
}

func (c *prefixCache) counts() (asked, hit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked, c.in
}

func (c *prefixCache) clear() {
	if c.max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.empty()
	c.asked, c.in = 0, 0
}
