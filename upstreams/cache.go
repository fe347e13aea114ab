package upstreams

import (
	"sync/atomic"
	"time"
)

// PromptCache tracks the capacity of an engine's prompt cache, and how many times the cache was
// emptied. It is safe for concurrent use.
type PromptCache struct {
	tokens        atomic.Int64
	emptied       atomic.Uint32
	reportsCached atomic.Bool
}

// RecordCached records the number of cached prompt tokens that the engine reported, and reports
// whether the number is meaningful. If an engine has never reported a cached token, it may not
// report cached tokens at all. vLLM, for example, reports them only with
// --enable-prompt-tokens-details.
func (c *PromptCache) RecordCached(cached int) bool {
	if cached > 0 && !c.reportsCached.Load() {
		c.reportsCached.Store(true)
	}
	return c.reportsCached.Load()
}

// CapacityTokens returns the capacity of the cache in tokens, as reported by the engine, or 0 if
// unknown.
func (c *PromptCache) CapacityTokens() int { return int(c.tokens.Load()) }

// SetCapacity stores the capacity of the cache in tokens.
func (c *PromptCache) SetCapacity(n int) { c.tokens.Store(int64(max(0, n))) }

// recordCounterSum records the sum of the engine's counters. If the sum decreases, the engine has
// restarted and its cache is empty.
func (u *Upstream) recordCounterSum(at time.Time, sum float64) {
	if u.Progress.RecordCount(at, sum) {
		u.Cache.RecordEmptied()
	}
}

// EmptiedCount returns how many times a restart of the engine has emptied the cache. Prompts sent
// before the newest restart are no longer cached.
func (c *PromptCache) EmptiedCount() uint32 { return c.emptied.Load() }

// RecordEmptied records that the cache is empty.
func (c *PromptCache) RecordEmptied() { c.emptied.Add(1) }
