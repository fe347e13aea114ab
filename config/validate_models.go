package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"penstock/config/suggest"
)

// modelChecks are about models: names, deployments, slots, and what the catalog shows.
type modelChecks struct {
	checks
	upstreams map[string]int // by name

	continuing []string // see Known
}

func (c modelChecks) all() {
	f := c.file
	if len(f.Models) == 0 && !c.places.Broken("models") {
		c.check.warn("models", "there are no models, so every call is refused")
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
		c.check.oneOf(at+".kind", "models.kind", "a kind", m.Kind)
		c.check.oneOf(at+".policy", "models.policy", "a policy", m.Policy)
		c.check.oneOf(at+".prompt_cache", "models.prompt_cache", "a choice", m.PromptCache)
		if m.SystemMessages != "" {
			c.check.oneOf(at+".system_messages", "models.system_messages", "a choice", m.SystemMessages)
		}
		if m.ReasoningHistory != "" {
			c.check.oneOf(at+".reasoning_history", "models.reasoning_history", "a choice", m.ReasoningHistory)
		}
		for j, name := range m.AllowMembers {
			if name == "" || strings.HasPrefix(strings.ToLower(name), "x-") || strings.Contains(name, "*") {
				c.check.fail(element(at+".allow_members", j), "%q cannot be let through: write whole names, none that begins with x-", name)
			}
		}
		c.deployments(at+".deployments", m)
		c.slots(at, m)
		c.queue(at+".queue", m.Queue)
		c.resume(at+".retry.resume", m)
		c.modelTimeouts(at+".timeouts", m.Timeouts)
		c.published(at, m)
	}
	c.promptCaches()
	c.turns()
}

// turns warns of models that wait for their turn at an upstream and have no queue to do it in.
func (c modelChecks) turns() {
	models := map[string]map[string]bool{} // upstream to what is served there
	for i := range c.file.Models {
		for _, d := range c.file.Models[i].Deployments {
			if models[d.Upstream] == nil {
				models[d.Upstream] = map[string]bool{}
			}
			models[d.Upstream][cmp.Or(d.Served, c.file.Models[i].ID)] = true
		}
	}
	for i := range c.file.Models {
		m, at := &c.file.Models[i], element("models", i)
		for _, d := range m.Deployments {
			u, known := c.upstreams[d.Upstream]
			if !known || m.Queue.Depth > 0 {
				continue
			}
			if n := c.file.Upstreams[u].Residents; n > 0 && len(models[d.Upstream]) > n {
				c.check.warn(at,
					"its calls take turns with other models at %s (residents: %d), and without a queue they get a 429 until it is its turn: add queue: { depth: 50, wait: 60s }",
					d.Upstream, n)
				break
			}
		}
	}
}

// maxResumes is how often a stream may be resumed. Each time costs its prompt anew.
const maxResumes = 3

// resume checks whether the streams of a model can be resumed as its file says.
func (c modelChecks) resume(at string, m *Model) {
	c.check.number(at, m.Retry.Resume, 0, maxResumes)
	if m.Retry.Resume == 0 {
		return
	}
	if m.Kind != KindChat {
		c.check.fail(at, "only streams of models of the kind chat can be resumed")
		return
	}
	for _, d := range m.Deployments {
		n, ok := c.upstreams[d.Upstream]
		if !ok || n >= len(c.file.Upstreams) || c.continues(&c.file.Upstreams[n]) {
			continue
		}
		c.check.warn(at, "it is not known whether the engine of the upstream %s goes on with an answer that a request has begun, "+
			"so no stream is resumed there: where it does, say prefill: proven", c.places.Show(at, d.Upstream))
	}
}

// continues reports whether the engine of an upstream goes on with an answer, or may turn out to.
func (c modelChecks) continues(u *Upstream) bool {
	if u.Prefill != "" || u.Engine == EngineAuto || slices.Contains(c.continuing, u.Engine) {
		return true
	}
	for i := range c.file.Engines {
		if e := &c.file.Engines[i]; e.Name == u.Engine {
			return len(e.Prefill) > 0 || slices.Contains(e.Quirks, QuirkContinuesAnswers) ||
				e.Quirks == nil && slices.Contains(c.continuing, e.Like)
		}
	}
	return false
}

// promptCaches checks what keeps the cached prompts of keys apart. An engine has one cache for all
// that it serves: a model that does not salt it would let clients write the salt of others.
func (c modelChecks) promptCaches() {
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
		if m.PromptCache != CachePerKey || c.places.BrokenWithin(at) {
			continue
		}
		switch {
		case m.Kind != KindChat:
			c.check.fail(at, "only models of the kind chat have a prompt cache")
		case f.Auth == AuthNone:
			c.check.fail(at, "auth: none knows no keys to keep apart")
		}
		for _, d := range m.Deployments {
			if other := open[d.Upstream]; other != "" && m.Kind == KindChat {
				c.check.fail(at,
					"%s shares the upstream %s, and with it the cache, with the model %s, whose prompt_cache is shared: set per_key there, too", c.places.Show(at, m.ID), c.places.Show(at, d.Upstream), c.places.Line(other, at))
				break
			}
		}
	}
}

func (c modelChecks) modelID(path, id string, seen map[string]string) {
	if strings.Contains(id, "*") {
		c.check.fail(path, "%s: an id is one name; patterns are for aliases", c.places.Show(path, id))
	}
	c.check.modelName(path, "a model needs an id", "model id", id, seen)
}

// alias checks one alias against the ids and the aliases of all models: a name must lead to one
// model.
func (c modelChecks) alias(path, alias string, ids, seen map[string]string) {
	if strings.Contains(strings.TrimSuffix(alias, "*"), "*") {
		c.check.fail(path, "%s: a * is allowed at the end only", c.places.Show(path, alias))
		return
	}
	if id, taken := ids[alias]; taken && alias != "" {
		c.check.fail(path, "the alias %s is the id of the model %s", c.places.Show(path, alias), c.places.Line(id, path))
		return
	}
	c.check.modelName(path, "an alias needs a name", "alias", alias, seen)
}

func (c modelChecks) deployments(path string, m *Model) {
	if len(m.Deployments) == 0 {
		c.check.fail(path, "a model needs a deployment: name at least one upstream that serves it")
	}
	unsure := c.places.NamesBroken("upstreams", "name") || c.exists("")
	seen := make(map[Deployment]int, len(m.Deployments))
	c.tiers(path, m)
	for i, d := range m.Deployments {
		at := element(path, i)
		switch {
		case d.Upstream == "":
			c.check.fail(at+".upstream", "a deployment needs the name of an upstream")
		case !unsure && !c.exists(d.Upstream):
			c.check.fail(at+".upstream", "there is no upstream %s%s", c.places.Show(at+".upstream", d.Upstream),
				c.check.didYouMean(d.Upstream, c.upstreamNames))
		}
		d.Tier, d.When = 0, ""
		if first, twice := seen[d]; !twice {
			seen[d] = i
		} else if d.Upstream != "" {
			c.check.fail(at, "the deployment is listed twice: first %s", c.places.Line(element(path, first), at))
		}
	}
}

// tiers checks the tiers of a model's deployments.
func (c modelChecks) tiers(path string, m *Model) {
	lowest, first := MaxTier+1, 0
	of, when := map[string]int{}, map[int]int{} // upstream and tier to the first deployment with it
	for i, d := range m.Deployments {
		at := element(path, i)
		c.check.number(at+".tier", d.Tier, 0, MaxTier)
		if d.Tier < lowest {
			lowest, first = d.Tier, i
		}
		if d.When != "" {
			c.check.oneOf(at+".when", "models.deployments.when", "a choice", d.When)
		}
		if d.Tier == 0 && d.When != "" {
			c.check.fail(at+".when", "tier 0 always serves: take when out, or write a tier above 0")
		}
		if j, known := of[d.Upstream]; !known {
			of[d.Upstream] = i
		} else if m.Deployments[j].Tier != d.Tier {
			c.check.fail(at+".tier", "the upstream %s is in another tier already: first %s",
				c.places.Show(at+".upstream", d.Upstream), c.places.Line(element(path, j), at))
		}
		if j, known := when[d.Tier]; !known {
			when[d.Tier] = i
		} else if m.Deployments[j].When != d.When {
			c.check.fail(at, "tier %d opens when %s by the deployment %s, and when %s by this one: a tier opens as a whole",
				d.Tier, m.Deployments[j].When, c.places.Line(element(path, j), at), d.When)
		}
	}
	if len(m.Deployments) > 0 && lowest > 0 && lowest <= MaxTier {
		c.check.fail(element(path, first)+".tier", "no deployment has tier 0, which comes first: number the tiers from 0")
	}
}

func (c modelChecks) exists(upstream string) bool {
	_, ok := c.upstreams[upstream]
	return ok
}

func (c modelChecks) upstreamNames() []string {
	names := make([]string, len(c.file.Upstreams))
	for i := range c.file.Upstreams {
		names[i] = c.file.Upstreams[i].Name
	}
	return names
}

func (c modelChecks) queue(path string, q Queue) {
	c.check.number(path+".depth", q.Depth, 0, 1e6)
	if (q.Depth > 0) != (q.Wait > 0) && !c.places.BrokenWithin(path) {
		c.check.fail(path, "depth and wait go together: give both, or none to answer 429 at once")
	}
	if q.Wait > Duration(10*time.Minute) {
		c.check.fail(path+".wait", "%s is too long: at most 10m", q.Wait)
	}
}

func (c modelChecks) modelTimeouts(path string, t ModelTimeouts) {
	for _, r := range []struct {
		path string
		d    *Duration
	}{
		{"connect", t.Connect}, {"answer", t.Answer}, {"write", t.Write},
	} {
		if r.d != nil {
			c.check.above0(path+"."+r.path, *r.d)
		}
	}
}

// modalities warns of words that look like a mistake: the set is open, but who means image and does
// not write it refuses every picture.
func (c modelChecks) modalities(path string, values []string) {
	common := []string{"text", "image", "audio", "video", "file"}
	for i, v := range values {
		if hint := suggest.DidYouMean(v, common); hint != "" && !slices.Contains(common, v) {
			at := element(path, i)
			c.check.warn(at, "%s is no common modality%s", c.places.Show(at, v), hint)
		}
	}
}

// published checks what the catalog shows of a model.
func (c modelChecks) published(path string, m *Model) {
	c.check.atLeast0(path, member{"created", int(m.Created)}, member{"context_length", m.ContextLength},
		member{"max_output_length", m.MaxOutputLength}, member{"capacity_tpm", m.CapacityTPM})
	if m.ContextLength > 0 && m.MaxOutputLength > m.ContextLength {
		c.check.warn(path+".max_output_length", "it is more than context_length allows")
	}
	c.modalities(path+".input_modalities", m.InputModalities)
	c.modalities(path+".output_modalities", m.OutputModalities)
	for modality, n := range m.ModalityContextLengths {
		c.check.atLeast0(path+".modality_context_lengths", member{modality, n})
	}
	if v := m.Vision; v != nil {
		c.check.atLeast0(path+".vision", member{"max_image_edge", v.MaxImageEdge}, member{"max_pixels", v.MaxPixels},
			member{"max_tokens", v.MaxTokens}, member{"context_length", v.ContextLength})
		c.check.number(path+".vision.retry_after_seconds", v.RetryAfterSeconds, 0, 3600)
		if m.Kind != KindChat {
			c.check.warn(path+".vision", "a model of the kind %s takes no images in messages",
				c.places.Show(path+".kind", m.Kind))
		}
	}
	if m.SupportedEndpoints != nil && len(m.SupportedEndpoints) == 0 {
		c.check.fail(path+".supported_endpoints",
			"the model could not be asked at all: list endpoints, or leave it out for those of its kind")
	}
	c.check.eachOneOf(path+".supported_endpoints", "models.supported_endpoints", "an endpoint", m.SupportedEndpoints)
	c.check.eachOneOf(path+".supported_reasoning_efforts", "models.supported_reasoning_efforts", "a reasoning effort",
		m.SupportedReasoningEfforts)
}
