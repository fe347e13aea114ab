package proxy

import (
	"go.uber.org/zap"

	"penstock/config"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// An engine that has read a prompt answers the next one with the same beginning sooner, and reports
// cached_tokens. A client that guesses a beginning can so learn whether another client has sent it.
// If a model's prompt_cache is per_key, each key has a cache of its own, or shares one with the
// keys of its group: the edge sends the engine a salt, and prefix affinity keeps the prompts of
// different owners apart.

// cacheOwner returns the owner whose cached prompts an engine may use for the call; empty: all
// owners'.
func (c *Call) cacheOwner() string {
	if c.key == nil || c.model.Config.PromptCache != config.CachePerKey {
		return ""
	}
	return c.key.CacheOwner
}

// saltAt returns the salt for an engine. For an engine that takes none, it is empty and a warning
// is logged once.
func (c *Call) saltAt(u *upstreams.Upstream) chat.Salt {
	owner := c.cacheOwner()
	if owner == "" {
		return chat.Salt{}
	}
	engine := u.Engine()
	if engine.CacheSalt() == "" {
		if _, told := c.shared.unsalted.LoadOrStore(engine, nil); !told {
			c.shared.Log.Warn("keys share the prompt cache of an engine that cannot keep them apart",
				zap.String("model", c.model.Config.ID), zap.String("upstream", u.Label()), zap.String("engine", engine.Name()))
		}
	}
	return chat.Salt{Member: engine.CacheSalt(), Owner: owner}
}
