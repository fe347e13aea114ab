package upstreams

import (
	"sync/atomic"
	"time"
)

// PromptCache describes an engine's prompt cache: its size, and the number of times that it was
// emptied. Any goroutine may read a PromptCache.
type PromptCache struct {
	tokens  atomic.Int64
	emptied atomic.Uint32
	counts  atomic.Bool
}

// Counted records the number of tokens of a prompt that the engine reports as cached, and reports
// whether the number is meaningful. An engine that has never reported a cached token may not count
// cached tokens at all, like vLLM without --enable-prompt-tokens-details.
func (c *PromptCache) Counted(cached int) bool {
	if cached > 0 && !c.counts.Load() {
		c.counts.Store(true)
	}
	return c.counts.Load()
}

// Tokens returns the number of tokens that the engine's cache holds according to its own pages, or
// 0 if they do not say.
func (c *PromptCache) Tokens() int { return int(c.tokens.Load()) }

// SetTokens stores the size that the engine has reported, or the size of a simulated cache.
func (c *PromptCache) SetTokens(n int) { c.tokens.Store(int64(max(0, n))) }

// count records the sum of the engine's counters. A smaller sum means that the engine has
// restarted, so its cache is empty.
func (u *Upstream) count(at time.Time, sum float64) {
	if u.Progress.Count(at, sum) {
		u.Cache.Empty()
	}
}

// Emptied returns the number of times that a restart of the engine has emptied the cache. Prompts
// sent before the newest restart are no longer cached.
func (c *PromptCache) Emptied() uint32 { return c.emptied.Load() }

// Empty records that the cache is empty.
func (c *PromptCache) Empty() { c.emptied.Add(1) }
