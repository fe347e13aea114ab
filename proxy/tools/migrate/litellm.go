package migrate

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"penstock/config"
)

// provider describes the engine behind the prefix of a LiteLLM model.
type provider struct {
	engine string // our profile; if empty, the edge detects the engine
	base   string
	key    string // default environment variable for the key
}

// providers lists the providers that serve OpenAI's API below /v1. Other providers cannot be
// upstreams.
var providers = map[string]provider{
	"openai":                 {engine: "openai", base: "https://api.openai.com", key: "OPENAI_API_KEY"},
	"text-completion-openai": {engine: "openai", base: "https://api.openai.com", key: "OPENAI_API_KEY"},
	"groq":                   {engine: "openai", base: "https://api.groq.com/openai", key: "GROQ_API_KEY"},
	"deepseek":               {engine: "openai", base: "https://api.deepseek.com", key: "DEEPSEEK_API_KEY"},
	"mistral":                {engine: "openai", base: "https://api.mistral.ai", key: "MISTRAL_API_KEY"},
	"openrouter":             {engine: "openai", base: "https://openrouter.ai/api", key: "OPENROUTER_API_KEY"},
	"together_ai":            {engine: "openai", base: "https://api.together.xyz", key: "TOGETHERAI_API_KEY"},
	"fireworks_ai":           {engine: "openai", base: "https://api.fireworks.ai/inference", key: "FIREWORKS_AI_API_KEY"},
	"xai":                    {engine: "openai", base: "https://api.x.ai", key: "XAI_API_KEY"},
	"cerebras":               {engine: "openai", base: "https://api.cerebras.ai", key: "CEREBRAS_API_KEY"},
	"nvidia_nim":             {engine: "openai", base: "https://integrate.api.nvidia.com", key: "NVIDIA_NIM_API_KEY"},

	"hosted_vllm":   {engine: "vllm"},
	"vllm":          {engine: "vllm"},
	"ollama":        {engine: "ollama", base: "http://localhost:11434"},
	"ollama_chat":   {engine: "ollama", base: "http://localhost:11434"},
	"lm_studio":     {engine: "lmstudio"},
	"llamafile":     {engine: "llamacpp", base: "http://127.0.0.1:8080"},
	"huggingface":   {engine: "tgi"},
	"openai_like":   {},
	"custom_openai": {},
	"litellm_proxy": {},
	"xinference":    {},
	"infinity":      {},
}

// unsupportedReasons maps LiteLLM settings to the reasons why Penstock does not have them.
var unsupportedReasons = map[string]string{
	"rpm":                          "engines are bounded by their slots (upstreams[].concurrency), keys by keys[].limits.requests_per_minute",
	"drop_params":                  "what an engine does not know reaches it unchanged; models[].allow_members lets more through",
	"success_callback":             "calls are seen by metrics, traces (tracing) and the log, none of which has prompts or replies",
	"failure_callback":             "calls are seen by metrics, traces (tracing) and the log, none of which has prompts or replies",
	"callbacks":                    "calls are seen by metrics, traces (tracing) and the log, none of which has prompts or replies",
	"cache":                        "answers are not cached, as nothing of them is kept; the choice of an engine keeps engines' own caches warm",
	"cache_params":                 "answers are not cached, as nothing of them is kept; the choice of an engine keeps engines' own caches warm",
	"context_window_fallbacks":     "a prompt that is too long is the client's to shorten: context_length_exceeded",
	"content_policy_fallbacks":     "an engine's refusal is passed on",
	"allowed_fails":                "probes and a breaker take engines out (upstreams[].probe)",
	"cooldown_time":                "probes and a breaker take engines out (upstreams[].probe)",
	"enable_pre_call_checks":       "context lengths are always checked",
	"background_health_checks":     "engines are always probed (upstreams[].probe)",
	"health_check_interval":        "engines are always probed (upstreams[].probe)",
	"redis_host":                   "edges share limits and slots by fleet.store",
	"redis_port":                   "edges share limits and slots by fleet.store",
	"redis_password":               "edges share limits and slots by fleet.store",
	"redis_url":                    "edges share limits and slots by fleet.store",
	"database_url":                 "keys, teams and budgets in its database are not read: make keys with penstock key new",
	"store_model_in_db":            "models in its database are not read: add them to models",
	"alerting":                     "alerts are rules for Prometheus: .deploy/alerts.yaml",
	"custom_auth":                  "keys, client certificates and tokens of identity providers (issuers) are what clients are known by",
	"enable_jwt_auth":              "see issuers",
	"max_budget":                   "budgets are those of keys: keys[].limits.spend_per_month",
	"environment_variables":        "set them for the program",
	"include":                      "the files that it names are not read: convert each by itself",
	"guardrails":                   "prompts and replies are passed on unread",
	"num_retries_per_request":      "retry.attempts is for all",
	"tags":                         "there is no routing by tags; a model of its own for each group of engines does it",
	"temperature":                  "parameters are the client's",
	"max_tokens":                   "parameters are the client's; models[].max_output_length bounds an answer",
	"extra_headers":                "engines are sent none but the edge's own header fields",
	"organization":                 "engines are sent none but the edge's own header fields",
	"global_max_parallel_requests": "engines are bounded by their slots (upstreams[].concurrency)",
	"max_parallel_requests":        "keys are bounded by keys[].limits.concurrency, engines by upstreams[].concurrency",
}

func (p *conversionPlan) readLiteLLM(file *sourceMapping) {
	for i, entry := range file.takeList("model_list") {
		p.readModel(newSourceMapping(fmt.Sprintf("model_list[%d]", i), entry))
	}
	for _, m := range p.models {
		m.assignTiers()
	}
	router, library := file.takeSection("router_settings"), file.takeSection("litellm_settings")
	general := file.takeSection("general_settings")
	p.readAliases(router.takeSection("model_group_alias"))
	p.readAliases(library.takeSection("model_alias_map"))
	for _, s := range []*sourceMapping{library, router} {
		p.readFallbacks(s)
		if s.takeKey("num_retries") != nil {
			p.attempts = 1 + min(s.takeInteger("num_retries"), 1)
			if s.takeInteger("num_retries") > 1 {
				p.addNote("%s.num_retries: a call is sent at most twice (retry.attempts)", s.path)
			}
		}
		p.timeouts.answer = cmp.Or(s.takeNumber("timeout"), s.takeNumber("request_timeout"), p.timeouts.answer)
		p.timeouts.firstEvent = cmp.Or(s.takeNumber("stream_timeout"), p.timeouts.firstEvent)
		s.ignoreKeys("set_verbose", "json_logs", "request_timeout", "timeout", "telemetry", "suppress_debug_info")
	}
	if strategy := router.takeText("routing_strategy"); strategy != "" && strategy != "least-busy" {
		p.addNote("router_settings.routing_strategy: least_loaded takes its place; models[].policy has round_robin")
	}
	if plain := general.takeText("master_key"); plain != "" {
		name, isVariable := strings.CutPrefix(plain, "os.environ/")
		if !isVariable {
			name = ""
		}
		p.addClientKey("general_settings.master_key", "master", plain, name)
	}
	if mib := general.takeNumber("max_request_size_mb"); mib > 0 {
		p.requestBody = fmt.Sprintf("%dKiB", max(int64(mib*1024), 1))
	}
	general.ignoreKeys("completion_model")
	for _, s := range []*sourceMapping{router, library, general, file} {
		s.noteUnreadKeys(p, unsupportedReasons)
	}
}

const maxConcurrency = 1e6

func (p *conversionPlan) readModel(entry *sourceMapping) {
	id, params := entry.takeText("model_name"), entry.takeSection("litellm_params")
	entry.path += " (" + id + ")"
	params.path = entry.path + ".litellm_params"
	where, served := entry.path, params.takeText("model")
	switch {
	case !config.CanBeModelID(id):
		p.addNote("%s: a model is served under one name, patterns are for aliases, so it is left out", where)
		return
	case served == "" || strings.HasPrefix(served, "os.environ/"):
		p.addNote("%s: litellm_params.model names no model, so it is left out", where)
		return
	}
	u, served := p.modelUpstream(params, where, served)
	if u == nil {
		return
	}
	u.concurrency = min(u.concurrency+params.takeInteger("max_parallel_requests"), maxConcurrency)
	u.weight = min(cmp.Or(params.takeNumber("weight"), u.weight), 1000)
	info := entry.takeSection("model_info")
	m := p.findOrAddModel(id)
	if tpm := max(params.takeInteger("tpm"), entry.takeInteger("tpm")); tpm > 0 {
		m.tpm += tpm
		p.addNote("%s.tpm: the catalog publishes it (capacity_tpm), and no call is held back for it; keys are bounded by keys[].limits.tokens_per_minute", where)
	}
	m.timeouts.answer = max(m.timeouts.answer, params.takeNumber("timeout"))
	m.timeouts.firstEvent = max(m.timeouts.firstEvent, params.takeNumber("stream_timeout"))
	m.readModelInfo(p, info, params)
	d := deployment{upstream: u, served: served, order: params.takeNumber("order")}
	same := func(o deployment) bool { return o.upstream == u && o.served == served }
	if i := slices.IndexFunc(m.deployments, same); i < 0 {
		m.deployments = append(m.deployments, d)
	}
	params.ignoreKeys("timeout", "stream_timeout", "input_cost_per_token", "output_cost_per_token",
		"cache_read_input_token_cost", "custom_llm_provider")
	entry.ignoreKeys("tpm")
	for _, s := range []*sourceMapping{params, entry} {
		s.noteUnreadKeys(p, unsupportedReasons)
	}
}

// modelUpstream returns the upstream for a model, and the model's name at the engine. If the engine
// cannot be an upstream, the upstream is nil.
func (p *conversionPlan) modelUpstream(params *sourceMapping, where, served string) (*upstream, string) {
	prefix, rest, prefixed := strings.Cut(served, "/")
	named := params.takeText("custom_llm_provider")
	base := params.takeText("api_base") + params.takeText("base_url")
	kind, known := providers[prefix]
	switch {
	case named != "":
		if kind, known = providers[named]; known && prefix == named {
			served = rest
		}
		prefix = named
	case known && prefixed:
		served = rest
	case !prefixed && base == "":
		prefix, kind, known = "openai", providers["openai"], true
	case !prefixed:
		prefix, known = "", true
	}
	if !known {
		p.addNote("%s: %s is not asked by OpenAI's API below /v1, so it is left out", where, prefix)
		return nil, ""
	}
	if base == "" && kind.base == "" {
		p.addNote("%s: it has no api_base, so it is left out", where)
		return nil, ""
	}
	apiKey := params.takeText("api_key")
	u := upstream{url: cmp.Or(base, kind.base), engine: kind.engine, apiKey: p.convertAPIKey(apiKey)}
	if apiKey != "" && !strings.HasPrefix(apiKey, "os.environ/") {
		p.addNote("%s: the engine's key stands in the new file as it stood in the other one: api_key takes ${VARIABLE} and file:PATH, too", where)
	}
	u.external = isHostedProvider(u.url)
	if kind.key != "" && !u.external {
		u.engine = "" // self-hosted, so the edge detects the engine
	}
	if kind.key != "" && u.external && u.apiKey == "" {
		u.apiKey = p.variableReference(kind.key)
	}
	if !p.convertAddress(&u, where, cmp.Or(u.engine, prefix)) {
		return nil, ""
	}
	if at, err := url.Parse(u.url); err == nil && base != "" && at.Path != "" && !strings.Contains(base+"/", "/v1/") {
		p.addNote("%s: the engine is asked below /v1: the upstream's url has to be what stands before it", where)
	}
	return p.findOrAddUpstream(u), served
}

func isHostedProvider(address string) bool {
	at, err := url.Parse(address)
	for _, p := range providers {
		if of, _ := url.Parse(p.base); err == nil && p.key != "" && of.Host == at.Host {
			return true
		}
	}
	return false
}

func (p *conversionPlan) convertAPIKey(text string) string {
	if name, ok := strings.CutPrefix(text, "os.environ/"); ok {
		return p.variableReference(name)
	}
	return escapeReferences(text)
}

// convertAddress converts an upstream's base URL to our format, and derives the upstream's name
// from it.
func (p *conversionPlan) convertAddress(u *upstream, where, kind string) bool {
	if name, ok := strings.CutPrefix(u.url, "os.environ/"); ok {
		u.url, u.name = p.variableReference(name), slugify(strings.ToLower(name))
		p.addNote("%s: the variable %s has to be the engine's base URL without /v1", where, name)
		return u.url != ""
	}
	at, err := url.Parse(strings.TrimRight(u.url, "/"))
	if err != nil {
		p.addNote("%s: its address is no http URL, so it is left out", where)
		return false
	}
	if at.User != nil || at.RawQuery != "" {
		p.addNote("%s: the user, the password and the query of its address are left out: an engine's key goes into api_key", where)
	}
	at.RawQuery, at.Fragment, at.User = "", "", nil
	path, _, _ := strings.Cut(at.Path+"/", "/v1/")
	at.Path, at.RawPath = strings.TrimRight(path, "/"), ""
	if config.CheckBaseURL(at.String()) != nil {
		p.addNote("%s: its address is no http URL, so it is left out", where)
		return false
	}
	u.url = escapeReferences(at.String())
	u.name = slugify(cmp.Or(kind, "engine") + "-" + at.Host)
	if u.external {
		u.name = slugify(at.Hostname())
	}
	return true
}

var modelKinds = map[string]string{
	"chat": config.ModelKindChat, "completion": config.ModelKindChat, "responses": config.ModelKindChat,
	"embedding": config.ModelKindEmbedding, "rerank": config.ModelKindRerank, "image_generation": config.ModelKindImage,
	"image_edit": config.ModelKindImageEdit, "audio_transcription": config.ModelKindTranscription, "audio_speech": config.ModelKindSpeech,
}

func (m *model) readModelInfo(p *conversionPlan, info, params *sourceMapping) {
	mode := info.takeText("mode")
	if kind := modelKinds[mode]; m.kind == "" && kind != "" {
		m.kind = kind
	} else if mode != "" && kind == "" {
		p.addNote("%s.mode: there is no such kind of models", info.path)
	}
	if m.kind == "" {
		m.kind, m.guessed = guessModelKind(m.id + " " + params.takeText("model"))
	}
	m.context = cmp.Or(m.context, info.takeInteger("max_input_tokens"))
	m.maxOutput = cmp.Or(m.maxOutput, info.takeInteger("max_output_tokens"), info.takeInteger("max_tokens"))
	m.vision = m.vision || info.takeText("supports_vision") == "true"
	if m.context > 0 && m.maxOutput > m.context {
		m.maxOutput = 0
	}
	for i, name := range []string{"input_cost_per_token", "output_cost_per_token", "cache_read_input_token_cost"} {
		if cost := cmp.Or(params.takeNumber(name), info.takeNumber(name)); cost > 0 {
			m.pricing[i] = strconv.FormatFloat(math.Round(cost*1e12)/1e6, 'f', -1, 64)
		}
	}
	info.ignoreKeys("id", "base_model", "max_tokens", "max_output_tokens", "input_cost_per_token", "output_cost_per_token",
		"cache_read_input_token_cost",
		"supports_function_calling", "supports_tool_choice", "supports_parallel_function_calling", "supports_response_schema",
		"supports_reasoning", "supports_system_messages", "litellm_provider")
	info.noteUnreadKeys(p, unsupportedReasons)
}

func guessModelKind(name string) (kind string, guessed bool) {
	name = strings.ToLower(name)
	for _, word := range []struct{ part, kind string }{
		{"rerank", config.ModelKindRerank},
		{"embed", config.ModelKindEmbedding},
		{"bge-", config.ModelKindEmbedding},
		{"whisper", config.ModelKindTranscription},
		{"tts", config.ModelKindSpeech},
		{"kokoro", config.ModelKindSpeech},
		{"stable-diffusion", config.ModelKindImage},
		{"flux", config.ModelKindImage},
	} {
		if strings.Contains(name, word.part) {
			return word.kind, true
		}
	}
	return config.ModelKindChat, false
}

// assignTiers converts LiteLLM's order values to tiers. Each upstream of a model can be in only one
// tier.
func (m *model) assignTiers() {
	slices.SortStableFunc(m.deployments, func(a, b deployment) int { return cmp.Compare(a.order, b.order) })
	var orders []float64
	for _, d := range m.deployments {
		orders = append(orders, d.order)
	}
	orders = slices.Compact(orders)
	first := map[*upstream]int{}
	for i := range m.deployments {
		d := &m.deployments[i]
		d.tier = min(slices.Index(orders, d.order), config.MaxTier)
		if tier, known := first[d.upstream]; known {
			d.tier = tier
		}
		first[d.upstream] = d.tier
	}
}

func (p *conversionPlan) readAliases(s *sourceMapping) {
	s.eachEntry(func(alias string, target any) {
		to := newSourceMapping(s.path+"."+alias, target)
		name := cmp.Or(scalarText(target), to.takeText("model"))
		to.ignoreKeys("hidden")
		to.noteUnreadKeys(p, unsupportedReasons)
		switch m := p.findModel(name); {
		case m == nil:
			p.addNote("%s.%s: it leads to no model of this file", s.path, alias)
		case !config.CanBeAlias(alias):
			p.addNote("%s: an alias has a name that no client can send, so it is left out", s.path)
		default:
			m.aliases = append(m.aliases, alias)
		}
	})
}

func (p *conversionPlan) readFallbacks(s *sourceMapping) {
	list, general := s.takeList("fallbacks"), s.takeNames("default_fallbacks")
	for _, entry := range list {
		items, _ := entry.(yaml.MapSlice)
		of := newSourceMapping(s.path+".fallbacks", items)
		for _, item := range items {
			name := fmt.Sprint(item.Key)
			if m := p.findModel(name); m != nil {
				m.fallback = append(m.fallback, of.takeNames(name)...)
			} else {
				p.addNote("%s.fallbacks: there is no model %q in this file", s.path, name)
			}
		}
	}
	for _, m := range p.models {
		if len(m.fallback) == 0 {
			m.fallback = slices.DeleteFunc(slices.Clone(general), func(name string) bool { return name == m.id })
		}
	}
}
