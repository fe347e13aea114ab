package proxy

import (
	"go.uber.org/zap"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// An engine that has read a prompt answers the next one with the same beginning sooner, and says so (cached_tokens). Whoever
// guesses a beginning learns in this way whether somebody has sent it. Where a model's prompt_cache is per_key, each key has a
// cache of its own, or shares one with the keys of its group: the engine is told a salt, and conversations of different owners
// are no longer one prompt for the choice of an engine.

// cacheOwner says whose prompts an engine may take for the call's; empty: everybody's.
func (c *Call) cacheOwner() string {
	if c.key == nil || c.model.config.PromptCache != config.CachePerKey {
		return ""
	}
	return c.key.CacheOwner
}

// saltAt is how an engine is told. Of one that has no salt the log is told, once.
func (c *Call) saltAt(u *upstreams.Upstream) chat.Salt {
	owner := c.cacheOwner()
	if owner == "" {
		return chat.Salt{}
	}
	engine := u.Engine()
	if engine.CacheSalt() == "" {
		if _, told := c.edge.unsalted.LoadOrStore(engine, nil); !told {
			c.edge.log.Warn("keys share the prompt cache of an engine that cannot keep them apart",
				zap.String("model", c.model.config.ID), zap.String("upstream", u.Label()), zap.String("engine", engine.Name()))
		}
	}
	return chat.Salt{Member: engine.CacheSalt(), Owner: owner}
}
