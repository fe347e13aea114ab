package sim

import (
	"net"
	"slices"
	"strings"
)

// inference are the paths whose requests are work: counted, recorded, and hit by faults that name no path.
var inference = map[string]bool{}

// route is one path of an engine.
type route struct {
	method string
	do     func(*Engine, *exchange)
	only   string // the profiles that have it, blank between; empty: all
}

var routes = map[string]route{}

func init() {
	work := func(do func(*Engine, *exchange), paths ...string) {
		for _, p := range paths {
			routes[p], inference[p] = route{"POST", do, ""}, true
		}
	}
	page := func(do func(*Engine, *exchange), only string, paths ...string) {
		for _, p := range paths {
			routes[p] = route{"GET", do, only}
		}
	}
	work((*Engine).chat, "/v1/chat/completions", "/chat/completions")
	work((*Engine).messages, "/v1/messages")
	work((*Engine).responses, "/v1/responses")
	work((*Engine).completions, "/v1/completions")
	work((*Engine).embeddings, "/v1/embeddings")
	work((*Engine).rerank, "/v1/rerank", "/v2/rerank", "/rerank")
	work((*Engine).speech, "/v1/audio/speech")
	work((*Engine).transcribe, "/v1/audio/transcriptions", "/v1/audio/translations", "/inference")

	page((*Engine).pageModels, "", "/v1/models")
	page((*Engine).pageModels, "llamacpp", "/models")
	page((*Engine).pageHealth, "vllm openai llamacpp sglang", "/health")
	page((*Engine).pageHealth, "llamacpp", "/v1/health")
	page((*Engine).pageHealth, "sglang", "/health_generate")
	page((*Engine).pageHealth, "vllm", "/ping")
	page((*Engine).pageMetrics, "vllm llamacpp sglang", "/metrics")
	page((*Engine).pageVersion, "vllm", "/version")
	page((*Engine).pageVersion, "ollama", "/api/version")
	page((*Engine).pageLoad, "vllm", "/load")
	page((*Engine).pageLoads, "sglang", "/v1/loads", "/get_load")
	page((*Engine).pageServerInfo, "sglang", "/get_server_info", "/server_info", "/get_model_info", "/model_info")
	page((*Engine).pageProps, "llamacpp", "/props")
	page((*Engine).pageSlots, "llamacpp", "/slots")
	page((*Engine).pageRoot, "ollama", "/")
	page((*Engine).pageTags, "ollama", "/api/tags", "/api/ps")
	routes["/tokenize"] = route{"POST", (*Engine).tokenize, "vllm llamacpp sglang"}
	routes["/v1/messages/count_tokens"] = route{"POST", (*Engine).countTokens, "vllm llamacpp"}
}

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
		e.record.add(r)
	} else {
		e.counters.probes.Add(1)
	}
	if !x.misbehave() {
		e.serveRequest(x)
	}
	if x.work && x.lost && !x.finished {
		e.counters.aborted.Add(1)
	}
}

// serveRequest checks what does not depend on the path and finds the handler.
func (e *Engine) serveRequest(x *exchange) {
	r := &x.req
	if x.knobs.err != nil {
		x.fail(apiError{status: 400, message: "sim: " + x.knobs.err.Error()})
		return
	}
	if x.p.local && !e.allowsHost(x) {
		x.reply(403, "", nil)
		return
	}
	if !e.authorized(x) {
		x.unauthorized()
		return
	}
	if e.sick.Load() && x.p.name == "llamacpp" {
		x.fail(apiError{status: 503, message: "Loading model"})
		return
	}
	rt, ok := routes[r.path]
	if ok && rt.only != "" {
		ok = slices.Contains(strings.Fields(rt.only), x.p.name)
	}
	if !ok && x.p.name != "llamacpp" && (r.method == "GET" || r.method == "HEAD") && strings.HasPrefix(r.path, "/v1/models/") {
		e.pageModel(x, strings.TrimPrefix(r.path, "/v1/models/"))
		return
	}
	switch {
	case !ok:
		x.notFound()
	case r.method == rt.method || r.method == "HEAD" && rt.method == "GET":
		if enc := r.get("Content-Encoding"); enc != "" && enc != "identity" {
			x.reply(415, "", nil)
			return
		}
		if x.p.typed && x.work && rt.method == "POST" && !isJSONType(r.get("Content-Type")) && !strings.HasPrefix(r.path, "/v1/audio/t") && r.path != "/inference" {
			x.fail(apiError{status: 400, message: "Unsupported Media Type: Only 'application/json' is allowed"})
			return
		}
		rt.do(e, x)
	case x.p.name == "llamacpp":
		x.notFound()
	default:
		x.t.lines = append(x.t.lines, "Allow: "+rt.method+"\r\n"...)
		if x.p.name == "ollama" {
			x.reply(405, "text/plain", []byte("405 method not allowed"))
			return
		}
		x.json(405, []byte(`{"detail":"Method Not Allowed"}`))
	}
}

func isJSONType(v string) bool {
	v, _, _ = strings.Cut(v, ";")
	return strings.EqualFold(strings.TrimSpace(v), "application/json")
}

func (x *exchange) notFound() {
	switch {
	case x.p.page404 != "":
		x.json(404, []byte(x.p.page404))
	case x.p.name == "ollama":
		x.reply(404, "text/plain", []byte("404 page not found"))
	case x.p.name == "llamacpp":
		x.fail(apiError{status: 404, message: "File Not Found"})
	default:
		x.fail(apiError{status: 404, message: "Invalid URL (" + x.req.method + " " + x.req.path + ")"})
	}
}

// authorized checks the API key where the profile's engine does.
func (e *Engine) authorized(x *exchange) bool {
	if e.o.APIKey == "" {
		return true
	}
	open := x.req.path == "/health"
	if x.p.auth == "v1" {
		open = !strings.HasPrefix(x.req.path, "/v1")
	}
	if x.p.auth == "" || open {
		return true
	}
	if x.p.name == "llamacpp" && x.req.get("X-Api-Key") == e.o.APIKey {
		return true
	}
	key, ok := strings.CutPrefix(x.req.get("Authorization"), "Bearer ")
	return ok && key == e.o.APIKey
}

func (x *exchange) unauthorized() {
	switch x.p.name {
	case "vllm", "sglang":
		x.json(401, []byte(`{"error":"Unauthorized"}`))
	case "llamacpp":
		x.fail(apiError{status: 401, message: "Invalid API Key"})
	default:
		x.fail(apiError{status: 401, message: "Incorrect API key provided.", kind: "invalid_request_error", code: "invalid_api_key"})
	}
}

// allowsHost is Ollama's guard against DNS rebinding: on loopback, Host and Origin must be local names.
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

func (e *Engine) nextID() uint64 { return mix(e.o.Seed+uint64(e.started.UnixNano()), e.ids.Add(1)) }
