package upstreams

import (
	"sync/atomic"
	"time"
)

// PromptCache is what is known of an engine's cache of prompts: how much it has room for, and how
// often it was found to be empty. Any goroutine may read it.
type PromptCache struct {
	tokens  atomic.Int64
	emptied atomic.Uint32
	counts  atomic.Bool
}

// Counted takes how many tokens of a prompt the engine says that it had cached. It reports whether
// that counts: an engine that has never said that it had any may be one that does not say, as vLLM
// without --enable-prompt-tokens-details.
func (c *PromptCache) Counted(cached int) bool {
	if cached > 0 && !c.counts.Load() {
		c.counts.Store(true)
	}
	return c.counts.Load()
}

// Tokens returns how many tokens the engine has room for, by its own pages; 0 when it does not say.
func (c *PromptCache) Tokens() int { return int(c.tokens.Load()) }

// SetTokens stores what the engine has said, or what a simulated one has.
func (c *PromptCache) SetTokens(n int) { c.tokens.Store(int64(max(0, n))) }

// count takes the sum of the engine's counters. Where they have begun anew its cache is empty.
func (u *Upstream) count(at time.Time, sum float64) {
	if u.Progress.Count(at, sum) {
		u.Cache.Empty()
	}
}

// Emptied counts how often the cache was found to have been emptied: the engine was started again.
// What was sent there before the newest of these is not held any more.
func (c *PromptCache) Emptied() uint32 { return c.emptied.Load() }

// Empty notes that the cache is empty.
func (c *PromptCache) Empty() { c.emptied.Add(1) }
