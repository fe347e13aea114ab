package scheduler

import "sync"

// PrefixCache contains the blocks of prompts that have been read. Like real engines, it evicts the
// least recently used blocks. Within a prompt, it evicts the last blocks before the first ones. The
// usage list links positions within one slice, so a full cache does not allocate.
type PrefixCache struct {
	mu           sync.Mutex
	max          int // maximum number of blocks; 0 disables the cache
	indexByBlock map[uint64]int32
	// entries[0] is the head of the list; its next is the newest block, and its before is the
	// oldest
	entries                     []cachedBlock
	lookedUpTokens, foundTokens int64
}

type cachedBlock struct {
	block        uint64
	next, before int32
}

// NewPrefixCache returns a cache for the given number of tokens. If the number is not positive, the
// cache stores nothing.
func NewPrefixCache(tokens int) *PrefixCache {
	c := &PrefixCache{}
	if tokens > 0 {
		c.max = max(1, tokens/BlockTokens)
		c.reset()
	}
	return c
}

func (c *PrefixCache) reset() { c.indexByBlock, c.entries = map[uint64]int32{}, make([]cachedBlock, 1) }

// Lookup returns how many tokens at the start of a prompt are cached. tokens is the length of the
// prompt. The last token is always read again, as in real engines.
func (c *PrefixCache) Lookup(blocks []uint64, tokens int) int {
	if c.max == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(c.cachedBlocks(blocks)*BlockTokens, tokens-1)
	c.lookedUpTokens += int64(tokens)
	c.foundTokens += int64(n)
	return n
}

// CachedTokens returns how many tokens at the start of a prompt are cached. Unlike Lookup, it
// neither counts as a lookup nor marks the blocks as recently used.
func (c *PrefixCache) CachedTokens(blocks []uint64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cachedBlocks(blocks) * BlockTokens
}

func (c *PrefixCache) cachedBlocks(blocks []uint64) int {
	n := 0
	for n < len(blocks) {
		if _, ok := c.indexByBlock[blocks[n]]; !ok {
			break
		}
		n++
	}
	return n
}

// Insert stores blocks and marks them as most recently used.
func (c *PrefixCache) Insert(blocks []uint64) {
	if c.max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(blocks) - 1; i >= 0; i-- {
		c.touch(blocks[i])
	}
}

func (c *PrefixCache) touch(block uint64) {
	at, ok := c.indexByBlock[block]
	switch {
	case ok:
		c.unlink(at)
	case len(c.entries) <= c.max:
		at = int32(len(c.entries))
		c.entries = append(c.entries, cachedBlock{})
	default: // replace the oldest block
		at = c.entries[0].before
		c.unlink(at)
		delete(c.indexByBlock, c.entries[at].block)
	}
	c.indexByBlock[block] = at
	newest := c.entries[0].next
	c.entries[at] = cachedBlock{block: block, next: newest}
	c.entries[newest].before, c.entries[0].next = at, at
}

func (c *PrefixCache) unlink(at int32) {
	u := c.entries[at]
	c.entries[u.before].next, c.entries[u.next].before = u.next, u.before
}

// LookupCounts returns how many tokens were looked up, and how many of them were found.
func (c *PrefixCache) LookupCounts() (asked, hit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lookedUpTokens, c.foundTokens
}

// Clear removes all blocks and resets the counts.
func (c *PrefixCache) Clear() {
	if c.max == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reset()
	c.lookedUpTokens, c.foundTokens = 0, 0
}
