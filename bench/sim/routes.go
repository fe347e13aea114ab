package sim

import (
	"net"
	"strings"

	"penstock/bench/sim/profile"
)

// inference are the paths whose requests are work: counted, recorded, and hit by faults that name
// no path.
var inference = map[string]bool{}

// route is one path of an engine.
type route struct {
	method string
	do     func(*Engine, *exchange)
	work   string // the kind of work it is; empty: a page
	only   string // the profiles or families that have the page, blank between
}

// routes are the paths of all engines; the first one that the engine has counts.
var routes = map[string][]route{}

func init() {
	work := func(kind string, do func(*Engine, *exchange), paths ...string) {
		for _, p := range paths {
			routes[p], inference[p] = append(routes[p], route{"POST", do, kind, ""}), true
		}
	}
	page := func(do func(*Engine, *exchange), only string, paths ...string) {
		for _, p := range paths {
			routes[p] = append(routes[p], route{"GET", do, "", only})
		}
	}
	action := func(do func(*Engine, *exchange), only, path string) {
		routes[path] = append(routes[path], route{"POST", do, "", only})
	}
	work("chat", (*Engine).chat, "/v1/chat/completions", "/chat/completions")
	work("messages", (*Engine).messages, "/v1/messages")
	work("responses", (*Engine).responses, "/v1/responses")
	work("completions", (*Engine).completions, "/v1/completions")
	work("embeddings", (*Engine).embeddings, "/v1/embeddings")
	work("rerank", (*Engine).rerank, "/v1/rerank", "/v2/rerank", "/rerank")
	work("speech", (*Engine).speech, "/v1/audio/speech")
	work("transcriptions", (*Engine).transcribe, "/v1/audio/transcriptions")
	work("translations", (*Engine).transcribe, "/v1/audio/translations")
	work("inference", (*Engine).transcribe, "/inference")

	const texts = "vllm openai llamacpp sglang ollama tgi trtllm lmstudio"
	page((*Engine).pageRouterModels, "llamacpp-router", "/v1/models", "/models")
	page((*Engine).pageModels, texts+" speaches kokoro", "/v1/models")
	page((*Engine).pageModels, "llamacpp", "/models")
	page((*Engine).pageHealth, "vllm openai llamacpp sglang tgi trtllm whisper speaches kokoro", "/health")
	page((*Engine).pageHealth, "llamacpp", "/v1/health")
	page((*Engine).pageHealth, "sglang trtllm", "/health_generate")
	page((*Engine).pageHealth, "vllm", "/ping")
	page((*Engine).pageRouterMetrics, "llamacpp-router", "/metrics")
	page((*Engine).pageIterations, "trtllm", "/metrics")
	page((*Engine).pageMetrics, "vllm llamacpp sglang tgi", "/metrics")
	page((*Engine).pageMetrics, "trtllm", "/prometheus/metrics")
	page((*Engine).pageVersion, "vllm trtllm", "/version")
	page((*Engine).pageVersion, "ollama", "/api/version")
	page((*Engine).pageLoad, "vllm", "/load")
	page((*Engine).pageLoads, "sglang", "/v1/loads", "/get_load")
	page((*Engine).pageServerInfo, "sglang", "/get_server_info", "/server_info", "/get_model_info", "/model_info")
	page((*Engine).pageRouterProps, "llamacpp-router", "/props")
	page((*Engine).pageProps, "llamacpp", "/props")
	page((*Engine).pageRouterSlots, "llamacpp-router", "/slots")
	page((*Engine).pageSlots, "llamacpp", "/slots")
	page((*Engine).pageRoot, "ollama", "/")
	page((*Engine).pageTags, "ollama", "/api/tags", "/api/ps")
	page((*Engine).pageInfo, "tgi", "/info")
	page((*Engine).pageStudioModels, "lmstudio", "/api/v0/models", "/api/v1/models")
	page((*Engine).pageWhisper, "whisper", "/")
	page((*Engine).pageSpeaches, "speaches", "/openapi.json", "/api/ps")
	page((*Engine).pageVoices, "kokoro", "/v1/audio/voices")
	action((*Engine).tokenize, "vllm llamacpp sglang", "/tokenize")
	action((*Engine).countTokens, "vllm llamacpp", "/v1/messages/count_tokens")
	action((*Engine).routerLoad, "llamacpp-router", "/models/load")
	action((*Engine).routerLoad, "llamacpp-router", "/models/unload")
}

// find returns the engine's own route for a path.
func (e *Engine) find(path string) (route, bool) {
	for _, rt := range routes[path] {
		if rt.work != "" && e.p.Does(rt.work) || rt.work == "" && e.p.Is(rt.only) {
			return rt, true
		}
	}
	return route{}, false
}

// modelPages are the profiles with a page for each model.
const modelPages = "vllm openai sglang ollama tgi trtllm lmstudio speaches kokoro"

// dispatch answers the request in hand.
func (e *Engine) dispatch(x *exchange) {
	r := &x.req
	if strings.HasPrefix(r.path, "/sim/") {
		e.control(x)
		return
	}
	x.work = inference[r.path] && r.method == "POST"
	if x.work {
		e.counters.requests.Add(1)
		if strings.Contains(headerValue(r.header, "User-Agent"), "probe") {
			e.counters.tests.Add(1)
		}
		e.record.add(r)
	} else {
		e.counters.probes.Add(1)
	}
	if !x.misbehave() {
		e.serveRequest(x)
	}
	if x.work && x.client.lost && !x.finished {
		e.counters.aborted.Add(1)
	}
}

// serveRequest checks what does not depend on the path and finds the handler.
func (e *Engine) serveRequest(x *exchange) {
	r := &x.req
	if x.knobs.err != nil {
		x.fail(profile.APIError{Status: 400, Message: "sim: " + x.knobs.err.Error()})
		return
	}
	if x.p.Local && !e.allowsHost(x) {
		x.reply(403, "", nil)
		return
	}
	if !e.authorized(x) {
		x.send(x.p.Unauthorized())
		return
	}
	if e.sick.Load() && x.p.Family == "llamacpp" {
		x.fail(profile.APIError{Status: 503, Message: "Loading model"})
		return
	}
	rt, ok := e.find(r.path)
	if !ok && x.p.Is(modelPages) && (r.method == "GET" || r.method == "HEAD") && strings.HasPrefix(r.path, "/v1/models/") {
		e.pageModel(x, strings.TrimPrefix(r.path, "/v1/models/"))
		return
	}
	switch {
	case !ok:
		x.send(x.p.NotFound(r.method, r.path))
	case r.method == rt.method || r.method == "HEAD" && rt.method == "GET":
		if enc := r.get("Content-Encoding"); enc != "" && enc != "identity" {
			x.reply(415, "", nil)
			return
		}
		if x.p.Typed && x.work && rt.method == "POST" && !isJSONType(r.get("Content-Type")) &&
			!strings.HasPrefix(r.path, "/v1/audio/t") {
			x.fail(profile.APIError{Status: 400, Message: "Unsupported Media Type: Only 'application/json' is allowed"})
			return
		}
		rt.do(e, x)
	default:
		x.send(x.p.WrongMethod(r.method, r.path, rt.method))
	}
}

func isJSONType(v string) bool {
	v, _, _ = strings.Cut(v, ";")
	return strings.EqualFold(strings.TrimSpace(v), "application/json")
}

// authorized checks the API key where the profile's engine does.
func (e *Engine) authorized(x *exchange) bool {
	if e.o.APIKey == "" {
		return true
	}
	open := x.req.path == "/health"
	switch x.p.Auth {
	case "v1":
		open = !strings.HasPrefix(x.req.path, "/v1")
	case "work":
		open = !x.work
	}
	if x.p.Auth == "" || open {
		return true
	}
	if x.p.Family == "llamacpp" && x.req.get("X-Api-Key") == e.o.APIKey {
		return true
	}
	key, ok := strings.CutPrefix(x.req.get("Authorization"), "Bearer ")
	return ok && key == e.o.APIKey
}

// allowsHost is Ollama's guard against DNS rebinding: on loopback, Host and Origin must be local
// names.
func (e *Engine) allowsHost(x *exchange) bool {
	host := x.req.get("Host")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if origin := x.req.get("Origin"); origin != "" {
		_, rest, _ := strings.Cut(origin, "://")
		if h, _, err := net.SplitHostPort(rest); err == nil {
			rest = h
		}
		if !localName(rest) {
			return false
		}
	}
	return localName(host)
}

func localName(host string) bool {
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
}
