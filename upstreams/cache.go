package upstreams

import (
	"sync/atomic"
	"time"
)

// PromptCache tracks the size of an engine's prompt cache, and how many times the cache was
// emptied. It is safe for concurrent use.
type PromptCache struct {
	tokens  atomic.Int64
	emptied atomic.Uint32
	counts  atomic.Bool
}

// Counted records the number of cached prompt tokens that the engine reported, and reports whether
// the number is meaningful. An engine that has never reported a cached token may not report cached
// tokens at all. vLLM, for example, reports them only with --enable-prompt-tokens-details.
func (c *PromptCache) Counted(cached int) bool {
	if cached > 0 && !c.counts.Load() {
		c.counts.Store(true)
	}
	return c.counts.Load()
}

// Tokens returns the capacity of the cache in tokens, as reported by the engine, or 0 if unknown.
func (c *PromptCache) Tokens() int { return int(c.tokens.Load()) }

// SetTokens stores the capacity of the cache in tokens.
func (c *PromptCache) SetTokens(n int) { c.tokens.Store(int64(max(0, n))) }

// count records the sum of the engine's counters. If the sum decreases, the engine has restarted
// and its cache is empty.
func (u *Upstream) count(at time.Time, sum float64) {
	if u.Progress.Count(at, sum) {
		u.Cache.Empty()
	}
}

// Emptied returns how many times a restart of the engine has emptied the cache. Prompts sent before
// the newest restart are no longer cached.
func (c *PromptCache) Emptied() uint32 { return c.emptied.Load() }

// Empty records that the cache is empty.
func (c *PromptCache) Empty() { c.emptied.Add(1) }
