package config

import (
	"slices"
	"strings"
	"time"
)

func (c *checker) models() {
	f := c.file
	if len(f.Models) == 0 && !c.readBadly("models") {
		c.warn("models", "there are no models, so every call is refused")
	}
	ids := map[string]string{}
	for i := range f.Models {
		c.modelID(element("models", i)+".id", f.Models[i].ID, ids)
	}
	aliases := map[string]string{}
	for i := range f.Models {
		m, at := &f.Models[i], element("models", i)
		for j, alias := range m.Aliases {
			c.alias(element(at+".aliases", j), alias, ids, aliases)
		}
		c.oneOf(at+".kind", "models.kind", "a kind", m.Kind)
		c.oneOf(at+".policy", "models.policy", "a policy", m.Policy)
		c.oneOf(at+".prompt_cache", "models.prompt_cache", "a choice", m.PromptCache)
		if m.SystemMessages != "" {
			c.oneOf(at+".system_messages", "models.system_messages", "a choice", m.SystemMessages)
		}
		c.deployments(at+".deployments", m)
		c.slots(at, m)
		c.queue(at+".queue", m.Queue)
		c.modelTimeouts(at+".timeouts", m.Timeouts)
		c.published(at, m)
	}
	c.promptCaches()
}

// promptCaches checks what keeps the cached prompts of keys apart. An engine has one cache for all that it serves: a model that
// does not salt it would let clients write the salt of others.
func (c *checker) promptCaches() {
	f := c.file
	open := map[string]string{} // upstream to the first model there whose cache is shared
	for i := range f.Models {
		if m := &f.Models[i]; m.Kind == KindChat && m.PromptCache != CachePerKey {
			for _, d := range m.Deployments {
				if open[d.Upstream] == "" {
					open[d.Upstream] = element("models", i)
				}
			}
		}
	}
	for i := range f.Models {
		m, at := &f.Models[i], element("models", i)+".prompt_cache"
		if m.PromptCache != CachePerKey || c.anyBroken(at) {
			continue
		}
		switch {
		case m.Kind != KindChat:
			c.fail(at, "only models of the kind chat have a prompt cache")
		case f.Auth == AuthNone:
			c.fail(at, "auth: none knows no keys to keep apart")
		}
		for _, d := range m.Deployments {
			if other := open[d.Upstream]; other != "" && m.Kind == KindChat {
				c.fail(at, "%s shares the upstream %s, and with it the cache, with the model %s, whose prompt_cache is shared: set per_key there, too", c.show(at, m.ID), c.show(at, d.Upstream), c.place(other, at))
				break
			}
		}
	}
}

func (c *checker) modelID(path, id string, seen map[string]string) {
	if strings.Contains(id, "*") {
		c.fail(path, "%s: an id is one name; patterns are for aliases", c.show(path, id))
	}
	c.modelName(path, "a model needs an id", "model id", id, seen)
}

// alias checks one alias against the ids and the aliases of all models: a name must lead to one model.
func (c *checker) alias(path, alias string, ids, seen map[string]string) {
	if strings.Contains(strings.TrimSuffix(alias, "*"), "*") {
		c.fail(path, "%s: a * is allowed at the end only", c.show(path, alias))
		return
	}
	if id, taken := ids[alias]; taken && alias != "" {
		c.fail(path, "the alias %s is the id of the model %s", c.show(path, alias), c.place(id, path))
		return
	}
	c.modelName(path, "an alias needs a name", "alias", alias, seen)
}

func (c *checker) deployments(path string, m *Model) {
	if len(m.Deployments) == 0 {
		c.fail(path, "a model needs a deployment: name at least one upstream that serves it")
	}
	unsure := c.namesUnsure("upstreams", "name") || c.upstream("") >= 0
	seen := make(map[Deployment]int, len(m.Deployments))
	for i, d := range m.Deployments {
		at := element(path, i)
		switch {
		case d.Upstream == "":
			c.fail(at+".upstream", "a deployment needs the name of an upstream")
		case !unsure && c.upstream(d.Upstream) < 0:
			c.fail(at+".upstream", "there is no upstream %s%s", c.show(at+".upstream", d.Upstream), c.didYouMean(d.Upstream, c.upstreamNames))
		}
		if first, twice := seen[d]; !twice {
			seen[d] = i
		} else if d.Upstream != "" {
			c.fail(at, "the deployment is listed twice: first %s", c.place(element(path, first), at))
		}
	}
}

func (c *checker) upstreamNames() []string {
	names := make([]string, len(c.file.Upstreams))
	for i := range c.file.Upstreams {
		names[i] = c.file.Upstreams[i].Name
	}
	return names
}

func (c *checker) queue(path string, q Queue) {
	c.number(path+".depth", q.Depth, 0, 1e6)
	if (q.Depth > 0) != (q.Wait > 0) && !c.anyBroken(path) {
		c.fail(path, "depth and wait go together: give both, or none to answer 429 at once")
	}
	if q.Wait > Duration(10*time.Minute) {
		c.fail(path+".wait", "%s is too long: at most 10m", q.Wait)
	}
}

func (c *checker) modelTimeouts(path string, t ModelTimeouts) {
	for _, r := range []struct {
		path string
		d    *Duration
	}{
		{"connect", t.Connect}, {"first_event", t.FirstEvent}, {"answer", t.Answer}, {"idle", t.Idle}, {"write", t.Write},
	} {
		if r.d != nil {
			c.above0(path+"."+r.path, *r.d)
		}
	}
}

// modalities warns of words that look like a mistake: the set is open, but who means image and does not write it refuses
// every picture.
func (c *checker) modalities(path string, values []string) {
	common := []string{"text", "image", "audio", "video", "file"}
	for i, v := range values {
		if hint := didYouMean(v, common); hint != "" && !slices.Contains(common, v) {
			at := element(path, i)
			c.warn(at, "%s is no common modality%s", c.show(at, v), hint)
		}
	}
}

// published checks what the catalog shows of a model.
func (c *checker) published(path string, m *Model) {
	c.atLeast0(path+".created", m.Created)
	c.atLeast0(path+".context_length", int64(m.ContextLength))
	c.atLeast0(path+".max_output_length", int64(m.MaxOutputLength))
	c.atLeast0(path+".capacity_tpm", int64(m.CapacityTPM))
	if m.ContextLength > 0 && m.MaxOutputLength > m.ContextLength {
		c.warn(path+".max_output_length", "it is more than context_length allows")
	}
	c.modalities(path+".input_modalities", m.InputModalities)
	c.modalities(path+".output_modalities", m.OutputModalities)
	for modality, n := range m.ModalityContextLengths {
		c.atLeast0(join(path+".modality_context_lengths", modality), int64(n))
	}
	if v := m.Vision; v != nil {
		c.atLeast0(path+".vision.max_image_edge", int64(v.MaxImageEdge))
		c.atLeast0(path+".vision.max_pixels", int64(v.MaxPixels))
		c.atLeast0(path+".vision.max_tokens", int64(v.MaxTokens))
		c.atLeast0(path+".vision.context_length", int64(v.ContextLength))
		c.number(path+".vision.retry_after_seconds", v.RetryAfterSeconds, 0, 3600)
		if m.Kind != KindChat {
			c.warn(path+".vision", "a model of the kind %s takes no images in messages", c.show(path+".kind", m.Kind))
		}
	}
	if m.SupportedEndpoints != nil && len(m.SupportedEndpoints) == 0 {
		c.fail(path+".supported_endpoints", "the model could not be asked at all: list endpoints, or leave it out for those of its kind")
	}
	c.eachOneOf(path+".supported_endpoints", "models.supported_endpoints", "an endpoint", m.SupportedEndpoints)
	c.eachOneOf(path+".supported_reasoning_efforts", "models.supported_reasoning_efforts", "a reasoning effort", m.SupportedReasoningEfforts)
}
