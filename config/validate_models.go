package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"penstock/config/suggest"
)

// modelChecks checks the models: names, deployments, slots and catalog entries.
type modelChecks struct {
	checks
	upstreams map[string]int // by name
	models    map[string]int // by id; if an id occurs twice, the first model counts
	engines   engineChecks
}

func (c modelChecks) checkAll() {
	f := c.file
	if len(f.Models)+len(f.Discover) == 0 && !c.positions.IsBroken("models") {
		c.check.warn("models", "there are no models, so every call is refused")
	}
	ids := map[string]string{}
	for i := range f.Models {
		c.checkModelID(entryPath("models", i)+".id", f.Models[i].ID, ids)
	}
	aliases := map[string]string{}
	for i := range f.Models {
		m, at := &f.Models[i], entryPath("models", i)
		for j, alias := range m.Aliases {
			c.checkAlias(entryPath(at+".aliases", j), alias, ids, aliases)
		}
		c.check.checkOneOf(at+".kind", "models.kind", "a kind", m.Kind)
		c.check.checkOneOf(at+".policy", "models.policy", "a policy", m.Policy)
		if m.Policy == PolicyTwoChoices || m.Policy == PolicyPrefixAffinity {
			c.check.warn(at+".policy", "%s is now a name of the default, least_loaded, which does what it was for: remove it", m.Policy)
		}
		c.check.checkOneOf(at+".prompt_cache", "models.prompt_cache", "a choice", m.PromptCache)
		if m.SystemMessages != "" {
			c.check.checkOneOf(at+".system_messages", "models.system_messages", "a choice", m.SystemMessages)
		}
		if m.ReasoningHistory != "" {
			c.check.checkOneOf(at+".reasoning_history", "models.reasoning_history", "a choice", m.ReasoningHistory)
		}
		for j, name := range m.AllowMembers {
			if name == "" || strings.HasPrefix(strings.ToLower(name), "x-") || strings.Contains(name, "*") {
				c.check.fail(entryPath(at+".allow_members", j), "%q cannot be let through: write whole names, none that begins with x-", name)
			}
		}
		c.checkDeployments(at+".deployments", m)
		c.checkSlots(at, m)
		c.checkQueue(at+".queue", m.Queue)
		c.checkResume(at+".retry.resume", m)
		c.checkFallbacks(at+".fallback", m, ids)
		checkShadow(c, at+".shadow", m, ids)
		c.checkTimeouts(at+".timeouts", m.Timeouts)
		c.checkCatalogEntry(at, m)
	}
	c.checkPromptCaches()
	c.warnMissingTurnQueues()
	c.warnUselessSettings()
	checkDiscover(c)
}

// warnMissingTurnQueues warns about models that take turns at an upstream and have no queue.
func (c modelChecks) warnMissingTurnQueues() {
	models := map[string]map[string]bool{} // served names by upstream
	for i := range c.file.Models {
		for _, d := range c.file.Models[i].Deployments {
			if models[d.Upstream] == nil {
				models[d.Upstream] = map[string]bool{}
			}
			models[d.Upstream][cmp.Or(d.Served, c.file.Models[i].ID)] = true
		}
	}
	for i := range c.file.Models {
		m, at := &c.file.Models[i], entryPath("models", i)
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

// warnUselessSettings warns about model settings that have no effect at the model's upstreams.
func (c modelChecks) warnUselessSettings() {
	for i := range c.file.Models {
		m, at := &c.file.Models[i], entryPath("models", i)
		for _, d := range m.Deployments {
			j, known := c.upstreams[d.Upstream]
			if !known {
				continue
			}
			u := &c.file.Upstreams[j]
			if slots := largestPool(u.Concurrency); m.Reserve > 0 && slots > 0 && m.Reserve.Of(int64(slots)) == 0 {
				c.check.warn(at+".reserve", "%s of the %d slots of %s rounds down to none, so no slot is kept free there: write %s or more",
					m.Reserve, slots, d.Upstream, Percent((100+slots-1)/slots))
				break
			}
		}
		for _, d := range m.Deployments {
			if j, known := c.upstreams[d.Upstream]; known && c.file.Upstreams[j].Wake.URL != "" && m.Queue.Depth == 0 {
				c.check.warn(at, "%s is woken for its calls (wake), and without a queue they get a 503 until it is up: "+
					"add queue: { depth: 50, wait: 60s }", d.Upstream)
				break
			}
		}
	}
}

// largestPool returns the number of slots in the largest pool. 0 means that the engine reports the
// number.
func largestPool(c Concurrency) int { return max(c.Shared, c.Text, c.Vision, c.Audio) }

// checkFallbacks checks a model's fallbacks. The keys of ids are all model ids.
func (c modelChecks) checkFallbacks(path string, m *Model, ids map[string]string) {
	unsure := c.positions.HasUnknownNames("models", "id")
	all := func() []string { return slices.Sorted(maps.Keys(ids)) }
	for i, id := range m.Fallback {
		at := entryPath(path, i)
		_, known := ids[id]
		switch j := modelIndex(c, id); {
		case id == m.ID:
			c.check.fail(at, "a model cannot be its own fallback: name another one")
		case slices.Contains(m.Fallback[:i], id):
			c.check.fail(at, "%s is listed twice", c.positions.QuoteValue(at, id))
		case unsure:
		case !known:
			c.check.fail(at, "there is no model with the id %s%s", c.positions.QuoteValue(at, id), c.check.didYouMean(id, all))
		case j >= 0 && c.file.Models[j].Kind != m.Kind:
			c.check.fail(at, "%s is a model of the kind %s, and this one is %s: it cannot answer the same calls",
				c.positions.QuoteValue(at, id), c.file.Models[j].Kind, m.Kind)
		}
	}
}

// checkShadow checks the model that receives copies of m's calls. The keys of ids are all model
// ids.
func checkShadow(c modelChecks, path string, m *Model, ids map[string]string) {
	at, id := path+".model", m.Shadow.Model
	j := modelIndex(c, id)
	switch _, known := ids[id]; {
	case id == "" && m.Shadow.Share > 0:
		c.check.fail(path, "the copies need a model to go to: add model: ID")
	case id == "":
	case !c.positions.HasValue(path + ".share"):
		c.check.fail(path, "say which part of the conversations is copied: add share: 5%%")
	case id == m.ID:
		c.check.fail(at, "the model would be its own shadow: name another one")
	case c.positions.HasUnknownNames("models", "id"):
	case !known:
		c.check.fail(at, "there is no model with the id %s%s", c.positions.QuoteValue(at, id),
			c.check.didYouMean(id, func() []string { return slices.Sorted(maps.Keys(ids)) }))
	case j < 0:
	case m.Kind != ModelKindChat || c.file.Models[j].Kind != ModelKindChat:
		c.check.fail(at, "only calls of chat models are copied, and only to chat models")
	case m.PromptCache == PromptCachePerKey && c.file.Models[j].PromptCache != PromptCachePerKey:
		c.check.fail(at, "prompts of keys are kept apart here but would share a cache at %s: set prompt_cache: per_key there, too",
			c.positions.QuoteValue(at, id))
	default:
		checkShadowTurns(c, at, &c.file.Models[j])
	}
}

// checkShadowTurns checks that shadow copies do not make an engine unload another model.
func checkShadowTurns(c modelChecks, at string, to *Model) {
	for _, d := range to.Deployments {
		if u, known := c.upstreams[d.Upstream]; known && c.file.Upstreams[u].Residents > 0 {
			c.check.fail(at, "%s is served by %s, whose models take turns (residents): a copy would take the turn of clients' calls",
				c.positions.QuoteValue(at, to.ID), d.Upstream)
			return
		}
	}
}

// maxResumes is the maximum number of resumes of a stream. Each resume makes an engine process the
// prompt again.
const maxResumes = 3

// checkResume checks that a model's streams can be resumed.
func (c modelChecks) checkResume(at string, m *Model) {
	c.check.checkRange(at, m.Retry.Resume, 0, maxResumes)
	if m.Retry.Resume == 0 {
		return
	}
	if m.Kind != ModelKindChat {
		c.check.fail(at, "only streams of chat models can be resumed")
		return
	}
	for _, d := range m.Deployments {
		n, ok := c.upstreams[d.Upstream]
		if !ok || n >= len(c.file.Upstreams) || c.canContinueAnswer(&c.file.Upstreams[n]) {
			continue
		}
		c.check.warn(at, "it is not known whether the engine of the upstream %s continues an answer that the request begins, "+
			"so no stream is resumed there: if it does, write prefill: proven", c.positions.QuoteValue(at, d.Upstream))
	}
}

// canContinueAnswer reports whether an upstream's engine can continue a response. It also returns
// true if the engine has yet to be detected.
func (c modelChecks) canContinueAnswer(u *Upstream) bool {
	if u.Prefill != "" || u.Engine == EngineAuto {
		return true
	}
	own, bundled := c.engines.findInherited(u.Engine, func(e *Engine) bool { return len(e.Prefill) > 0 || e.Quirks != nil })
	if own != nil {
		return len(own.Prefill) > 0 || slices.Contains(own.Quirks, QuirkContinuesAnswers)
	}
	return slices.Contains(c.engines.bundled.Continuing, bundled)
}

// checkPromptCaches checks that the cached prompts of different keys are separated. An engine has
// one cache for all its models. Clients could therefore send another key's salt through a model
// that sets no salt.
func (c modelChecks) checkPromptCaches() {
	f := c.file
	open := map[string]string{} // the first model with a shared cache, by upstream
	for i := range f.Models {
		if m := &f.Models[i]; m.Kind == ModelKindChat && m.PromptCache != PromptCachePerKey {
			for _, d := range m.Deployments {
				if open[d.Upstream] == "" {
					open[d.Upstream] = entryPath("models", i)
				}
			}
		}
	}
	for i := range f.Models {
		m, at := &f.Models[i], entryPath("models", i)+".prompt_cache"
		if m.PromptCache != PromptCachePerKey || c.positions.IsOrContainsBroken(at) {
			continue
		}
		switch {
		case m.Kind != ModelKindChat:
			c.check.fail(at, "only chat models have a prompt cache")
		case f.Auth == AuthNone:
			c.check.fail(at, "auth: none has no keys to keep apart")
		}
		for _, d := range m.Deployments {
			if other := open[d.Upstream]; other != "" && m.Kind == ModelKindChat {
				c.check.fail(at,
					"%s shares the upstream %s, and with it the cache, with the model %s, whose prompt_cache is shared: set per_key there, too", c.positions.QuoteValue(at, m.ID), c.positions.QuoteValue(at, d.Upstream), c.positions.DescribeLine(other, at))
				break
			}
		}
		c.warnUnreadSalt(at, m)
	}
}

// warnUnreadSalt warns if a model separates prompts but none of its engines reads a salt.
func (c modelChecks) warnUnreadSalt(at string, m *Model) {
	if c.engines.bundled.Salting == nil || len(m.Deployments) == 0 {
		return
	}
	for _, d := range m.Deployments {
		if u, known := c.upstreams[d.Upstream]; !known || c.engines.readsSalt(&c.file.Upstreams[u]) {
			return
		}
	}
	c.check.warn(at, "no engine of %s reads a salt, so per_key has no effect and the prompts of keys share its cache: "+
		"use %s, set cache_salt in the engine's profile, or remove it", c.positions.QuoteValue(at, m.ID), suggest.JoinWithOr(c.engines.bundled.Salting))
}

func (c modelChecks) checkModelID(path, id string, seen map[string]string) {
	if strings.Contains(id, "*") {
		c.check.fail(path, "%s: an id is one name; patterns are for aliases", c.positions.QuoteValue(path, id))
	}
	c.check.checkModelName(path, "a model needs an id", "model id", id, seen)
}

// checkAlias checks an alias against the ids and aliases of all models, because a name must
// identify a single model.
func (c modelChecks) checkAlias(path, alias string, ids, seen map[string]string) {
	if strings.Contains(strings.TrimSuffix(alias, "*"), "*") {
		c.check.fail(path, "%s: a * is allowed at the end only", c.positions.QuoteValue(path, alias))
		return
	}
	if id, taken := ids[alias]; taken && alias != "" {
		c.check.fail(path, "the alias %s is the id of the model %s", c.positions.QuoteValue(path, alias), c.positions.DescribeLine(id, path))
		return
	}
	c.check.checkModelName(path, "an alias needs a name", "alias", alias, seen)
}

func (c modelChecks) checkDeployments(path string, m *Model) {
	if len(m.Deployments) == 0 {
		c.check.fail(path, "a model needs a deployment: name at least one upstream that serves it")
	}
	unsure := c.positions.HasUnknownNames("upstreams", "name") || c.upstreamExists("")
	seen := make(map[Deployment]int, len(m.Deployments))
	c.checkTiers(path, m)
	checkArms(c.check, path, m)
	checkLengths(c.check, path, m)
	for i, d := range m.Deployments {
		at := entryPath(path, i)
		switch {
		case d.Upstream == "":
			c.check.fail(at+".upstream", "a deployment needs the name of an upstream")
		case !unsure && !c.upstreamExists(d.Upstream) && isUpstreamGroup(d.Upstream):
			reportEmptyGroup(c.checks, at+".upstream", d.Upstream)
		case !unsure && !c.upstreamExists(d.Upstream):
			c.check.fail(at+".upstream", "there is no upstream %s%s", c.positions.QuoteValue(at+".upstream", d.Upstream),
				c.check.didYouMean(d.Upstream, c.upstreamNames))
		}
		d.Tier, d.When, d.Traffic, d.Arm, d.PromptTokens = 0, "", nil, "", PromptTokenLimits{}
		if first, twice := seen[d]; !twice {
			seen[d] = i
		} else if d.Upstream != "" {
			c.check.fail(at, "the deployment is listed twice: first %s", c.positions.DescribeLine(entryPath(path, first), at))
		}
	}
}

func reportEmptyGroup(c checks, at, group string) {
	tag, isTag := strings.CutPrefix(group, tagGroupPrefix)
	if !isTag {
		c.check.fail(at, "the group %s is empty: no upstream matches it that this list does not already name",
			c.positions.QuoteValue(at, group))
		return
	}
	var known []string
	for _, t := range UpstreamTags(c.file) {
		if t.Tag == tag {
			c.check.fail(at, "the group %s is empty: this list already names all upstreams with the tag: remove it",
				c.positions.QuoteValue(at, group))
			return
		}
		known = append(known, tagGroupPrefix+t.Tag)
	}
	hint := c.check.didYouMean(group, func() []string { return known })
	if hint == "" {
		hint = ": give those that are meant tags: [" + tag + "]"
	}
	c.check.fail(at, "no upstream has the tag of %s%s", c.positions.QuoteValue(at, group), hint)
}

func (c modelChecks) checkTiers(path string, m *Model) {
	lowest, first := MaxTier+1, 0
	// index of the first deployment at each upstream, and in each tier
	of, when := map[string]int{}, map[int]int{}
	for i, d := range m.Deployments {
		at := entryPath(path, i)
		c.check.checkRange(at+".tier", d.Tier, 0, MaxTier)
		if d.Tier < lowest {
			lowest, first = d.Tier, i
		}
		if d.When != "" {
			c.check.checkOneOf(at+".when", "models.deployments.when", "a choice", d.When)
		}
		if d.Tier == 0 && d.When != "" {
			c.check.fail(at+".when", "tier 0 always serves: remove when, or write a tier above 0")
		}
		if j, known := of[d.Upstream]; !known {
			of[d.Upstream] = i
		} else if m.Deployments[j].Tier != d.Tier {
			c.check.fail(at+".tier", "the upstream %s is in another tier already: first %s",
				c.positions.QuoteValue(at+".upstream", d.Upstream), c.positions.DescribeLine(entryPath(path, j), at))
		}
		if j, known := when[d.Tier]; !known {
			when[d.Tier] = i
		} else if m.Deployments[j].When != d.When {
			c.check.fail(at, "tier %d opens when %s by the deployment %s, and when %s by this one: a tier opens as a whole",
				d.Tier, m.Deployments[j].When, c.positions.DescribeLine(entryPath(path, j), at), d.When)
		}
	}
	if len(m.Deployments) > 0 && lowest > 0 && lowest <= MaxTier {
		c.check.fail(entryPath(path, first)+".tier", "no deployment has tier 0, which comes first: number the tiers from 0")
	}
}

// checkLengths checks that there is a deployment for prompts of every length.
func checkLengths(check *checker, path string, m *Model) {
	longest, all := 0, len(m.Deployments) > 0
	for i, d := range m.Deployments {
		check.checkNotNegative(entryPath(path, i)+".prompt_tokens", numericMember{"max", d.PromptTokens.Max})
		longest, all = max(longest, d.PromptTokens.Max), all && d.PromptTokens.Max > 0
	}
	if all {
		check.fail(path, "no deployment takes prompts of more than %d tokens: leave prompt_tokens out of the one with the longest context", longest)
	}
}

func checkArms(check *checker, path string, m *Model) {
	type tier struct {
		arms  float64 // sum of the shares of the tier's arms
		first int     // index of the first deployment with a share
		rest  bool    // at least one deployment has no share
	}
	tiers, arms := map[int]*tier{}, map[string]bool{}
	for i, d := range m.Deployments {
		t := tiers[d.Tier]
		if t == nil {
			t = &tier{first: -1}
			tiers[d.Tier] = t
		}
		switch {
		case d.Traffic == nil:
			t.rest = true
			continue
		case arms[d.Arm]:
			continue
		case t.first < 0:
			t.first = i
		}
		arms[d.Arm] = true
		t.arms += float64(*d.Traffic)
	}
	if len(arms) > MaxArms {
		check.fail(path, "%d deployments have a share of the calls: at most %d are allowed", len(arms), MaxArms)
	}
	for _, n := range slices.Sorted(maps.Keys(tiers)) {
		t := tiers[n]
		if t.first < 0 {
			continue
		}
		at := entryPath(path, t.first) + ".traffic"
		if t.arms > 100 {
			check.fail(at, "the deployments of tier %d together get %s of its calls: at most 100%% is possible", n, Percent(t.arms))
		}
		if !t.rest {
			check.fail(at, "every deployment of tier %d has a share, so none takes the calls of one that is full or out: leave traffic out of the one that gets the rest", n)
		}
	}
}

func modelIndex(c modelChecks, id string) int {
	if i, known := c.models[id]; known {
		return i
	}
	return -1
}

func (c modelChecks) upstreamExists(upstream string) bool {
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

func (c modelChecks) checkQueue(path string, q Queue) {
	c.check.checkRange(path+".depth", q.Depth, 0, 1e6)
	if (q.Depth > 0) != (q.Wait > 0) && !c.positions.IsOrContainsBroken(path) {
		c.check.fail(path, "depth and wait go together: give both, or none to answer 429 at once")
	}
	if q.Wait > Duration(10*time.Minute) {
		c.check.fail(path+".wait", "%s is too long: at most 10m", q.Wait)
	}
}

func (c modelChecks) checkTimeouts(path string, t ModelTimeouts) {
	for _, r := range []struct {
		path string
		d    *Duration
	}{
		{"connect", t.Connect}, {"answer", t.Answer}, {"write", t.Write},
	} {
		if r.d != nil {
			c.check.requirePositive(path+"."+r.path, *r.d)
		}
	}
}

// warnUnknownModalities warns about unknown modalities, which are probably misspelt. Any modality
// is allowed, but if "image" is misspelt, the model refuses every image.
func (c modelChecks) warnUnknownModalities(path string, values []string) {
	common := []string{"text", "image", "audio", "video", "file"}
	for i, v := range values {
		if hint := suggest.DidYouMean(v, common); hint != "" && !slices.Contains(common, v) {
			at := entryPath(path, i)
			c.check.warn(at, "%s is not a known modality%s", c.positions.QuoteValue(at, v), hint)
		}
	}
}

func (c modelChecks) checkCatalogEntry(path string, m *Model) {
	c.check.checkNotNegative(path, numericMember{"created", int(m.Created)}, numericMember{"context_length", m.ContextLength},
		numericMember{"max_output_length", m.MaxOutputLength}, numericMember{"capacity_tpm", m.CapacityTPM})
	if m.ContextLength > 0 && m.MaxOutputLength > m.ContextLength {
		c.check.warn(path+".max_output_length", "it is more than context_length allows")
	}
	c.warnUnknownModalities(path+".input_modalities", m.InputModalities)
	c.warnUnknownModalities(path+".output_modalities", m.OutputModalities)
	for modality, n := range m.ModalityContextLengths {
		c.check.checkNotNegative(path+".modality_context_lengths", numericMember{modality, n})
	}
	checkRetirement(c.check, path, m)
	if v := m.Vision; v != nil {
		c.check.checkNotNegative(path+".vision", numericMember{"max_image_edge", v.MaxImageEdge}, numericMember{"max_pixels", v.MaxPixels},
			numericMember{"max_tokens", v.MaxTokens}, numericMember{"context_length", v.ContextLength})
		c.check.checkRange(path+".vision.retry_after_seconds", v.RetryAfterSeconds, 0, 3600)
		if m.Kind != ModelKindChat {
			c.check.warn(path+".vision", "a model of the kind %s takes no images in messages",
				c.positions.QuoteValue(path+".kind", m.Kind))
		}
	}
	if m.SupportedEndpoints != nil && len(m.SupportedEndpoints) == 0 {
		c.check.fail(path+".supported_endpoints",
			"the model would have no endpoint: list endpoints, or leave it out for those of its kind")
	}
	c.check.checkEachOneOf(path+".supported_endpoints", "models.supported_endpoints", "an endpoint", m.SupportedEndpoints)
	c.check.checkEachOneOf(path+".supported_reasoning_efforts", "models.supported_reasoning_efforts", "a reasoning effort",
		m.SupportedReasoningEfforts)
}

// checkRetirement checks a model's retirement dates, and warns if they have passed.
func checkRetirement(check *checker, path string, m *Model) {
	past := func(at time.Time) bool { return !at.IsZero() && at.Before(time.Now()) }
	switch {
	case !m.Sunset.IsZero() && m.Sunset.Before(m.Deprecated):
		check.fail(path+".sunset", "it is before deprecated, the date from which clients should leave the model")
	case past(m.Sunset):
		check.warn(path+".sunset", "the date is past, and the model is still served: remove the model, or write a later date")
	case past(m.Deprecated) && m.Sunset.IsZero():
		check.warn(path+".deprecated", "the date is past, and clients cannot see how long the model is served: add sunset, or remove the model")
	}
}

func checkDiscover(c modelChecks) {
	for i := range c.file.Discover {
		d, at := &c.file.Discover[i], entryPath("discover", i)
		switch {
		case d.Upstream == "":
			c.check.fail(at+".upstream", "discover needs the name of an upstream")
		case !c.upstreamExists(d.Upstream) && !c.positions.HasUnknownNames("upstreams", "name") && !c.upstreamExists(""):
			c.check.fail(at+".upstream", "there is no upstream %s%s", c.positions.QuoteValue(at+".upstream", d.Upstream),
				c.check.didYouMean(d.Upstream, c.upstreamNames))
		}
		if strings.Contains(strings.TrimSuffix(d.Match, "*"), "*") || d.Match == "" {
			c.check.fail(at+".match", "match is one name, or ends in *; leave it out for all")
		}
		if !isPresentableName(d.Prefix) || strings.Contains(d.Prefix, "*") || len(d.Prefix) > maxNameBytes/2 {
			c.check.fail(at+".prefix", "it must have no *, no control characters and no blanks around it, and be short")
		}
		if d.Kind != "" {
			c.check.checkOneOf(at+".kind", "discover.kind", "a kind", d.Kind)
		}
		c.checkQueue(at+".queue", d.Queue)
		for j := range c.file.Models {
			m := &c.file.Models[j]
			if k := slices.IndexFunc(m.Aliases, func(a string) bool {
				return strings.HasSuffix(a, "*") && strings.HasPrefix(d.Prefix, strings.TrimSuffix(a, "*"))
			}); k >= 0 {
				c.check.warn(at, "nothing is discovered: the alias %s of a model covers every name", c.positions.QuoteValue(
					entryPath(entryPath("models", j)+".aliases", k), m.Aliases[k]))
			}
		}
	}
}
