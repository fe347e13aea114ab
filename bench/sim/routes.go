package sim

import (
	"net"
	"strings"

	"github.com/valyala/fastjson"

	"penstock/bench/sim/profile"
)

// inferenceKindByPath maps each path for inference requests to its kind of work. The engine counts and
// records the requests on these paths, and a fault without a path affects them.
var inferenceKindByPath = map[string]string{
	"/v1/chat/completions": "chat", "/chat/completions": "chat", "/v1/completions": "completions", "/v1/embeddings": "embeddings",
	"/v1/rerank": "rerank", "/v2/rerank": "rerank", "/rerank": "rerank", "/v1/audio/speech": "speech",
	"/v1/audio/transcriptions": "transcriptions", "/v1/audio/translations": "translations", "/inference": "inference",
	"/v1/score": "score", "/score": "score", "/v1/classify": "classify", "/classify": "classify", "/pooling": "pooling", "/v1/moderations": "moderations",
	"/tokenize": "tokenize", "/detokenize": "detokenize",
}

// serveInference performs one kind of inference.
func serveInference(kind string, x *exchange) {
	switch kind {
	case "chat":
		serveChat(x)
	case "completions":
		serveCompletions(x)
	case "embeddings":
		serveEmbeddings(x)
	case "rerank":
		serveRerank(x)
	case "score", "classify", "pooling", "moderations", "detokenize":
		servePrefillOnlyWork(x, kind)
	case "speech":
		serveSpeech(x)
	default:
		serveTranscription(x)
	}
}

func dispatchRequest(x *exchange) {
	e := x.e
	r := &x.req
	if strings.HasPrefix(r.path, "/sim/") {
		serveControlPage(x)
		return
	}
	x.isInference = inferenceKindByPath[r.path] != "" && r.method == "POST"
	if x.isInference {
		e.counters.requests.Add(1)
		if strings.Contains(headerValue(r.header, "User-Agent"), "probe") {
			e.counters.probeRequests.Add(1)
		}
		e.record.add(r)
	} else {
		e.counters.probes.Add(1)
	}
	if !x.injectResponseFault() {
		serveRequest(x)
	}
	if x.isInference && x.client.lost && !x.finished {
		e.counters.aborted.Add(1)
	}
}

// serveRequest performs the checks common to all paths, and then calls the handler.
func serveRequest(x *exchange) {
	e := x.e
	r := &x.req
	if x.knobs.Err != nil {
		x.replyError(profile.APIError{Status: 400, Message: "sim: " + x.knobs.Err.Error()})
		return
	}
	if x.p.Local && !allowsHost(x) {
		x.reply(403, "", nil)
		return
	}
	if !authorized(x) {
		x.sendReply(e.pages.Unauthorized())
		return
	}
	if e.unhealthy.Load() && x.p.Family == "llamacpp" {
		x.replyError(profile.APIError{Status: 503, Message: "Loading model"})
		return
	}
	if asleep, ok := sleepPaths[r.path]; ok && x.p.Family == "vllm" && r.method == "POST" {
		e.setAsleep(x, asleep)
		return
	}
	read := r.method == "GET" || r.method == "HEAD"
	if name, ok := strings.CutPrefix(r.path, "/v1/models/"); ok && read && e.pages.HasPage("/v1/models/") {
		serveModelPage(x, name)
		return
	}
	kind, action := inferenceKindByPath[r.path], auxiliaryHandlers[r.path]
	works, acts := kind != "" && x.p.SupportsKind(kind), action.do != nil && x.p.MatchesAny(action.only)
	shows := !works && !acts && e.pages.HasPage(r.path) && r.path != "/v1/models/"
	switch {
	case !works && !acts && !shows:
		x.sendReply(e.pages.NotFound(r.method, r.path))
	case shows && !read:
		x.sendReply(e.pages.MethodNotAllowed(r.method, r.path, "GET"))
	case !shows && r.method != "POST":
		x.sendReply(e.pages.MethodNotAllowed(r.method, r.path, "POST"))
	case r.headerValue("Content-Encoding") != "" && r.headerValue("Content-Encoding") != "identity":
		x.reply(415, "", nil)
	case shows:
		serveEnginePage(x)
	case acts:
		withJSONBody(x, func(v *fastjson.Value) { action.do(e, x, v) })
	case x.p.Typed && !isJSONType(r.headerValue("Content-Type")) && !strings.HasPrefix(r.path, "/v1/audio/t"):
		x.replyError(profile.APIError{Status: 400, Message: "Unsupported Media Type: Only 'application/json' is allowed"})
	case e.asleep.Load():
		x.client.waitUntilLeft()
	default:
		serveInference(kind, x)
	}
}

// sleepPaths contains the paths that put a vLLM to sleep (true) or wake it up (false).
var sleepPaths = map[string]bool{"/sleep": true, "/wake_up": false}

// setAsleep puts the engine to sleep or wakes it. A sleeping engine is healthy, but does not
// process requests. Waking it up takes as long as loading a model.
func (e *Engine) setAsleep(x *exchange, asleep bool) {
	if !asleep && !x.client.pause(modelLoadTime) {
		return
	}
	e.asleep.Store(asleep)
	x.reply(200, "", nil)
}

func isJSONType(v string) bool {
	v, _, _ = strings.Cut(v, ";")
	return strings.EqualFold(strings.TrimSpace(v), "application/json")
}

// authorized checks the API key if the profile's engine requires a key on this path.
func authorized(x *exchange) bool {
	e := x.e
	if e.o.APIKey == "" {
		return true
	}
	open := x.req.path == "/health"
	switch x.p.Auth {
	case "v1":
		open = !strings.HasPrefix(x.req.path, "/v1")
	case "work":
		open = !x.isInference
	}
	if x.p.Auth == "" || open {
		return true
	}
	if x.p.Family == "llamacpp" && x.req.headerValue("X-Api-Key") == e.o.APIKey {
		return true
	}
	key, ok := strings.CutPrefix(x.req.headerValue("Authorization"), "Bearer ")
	return ok && key == e.o.APIKey
}

// allowsHost implements Ollama's protection against DNS rebinding. If the engine listens on
// loopback, Host and Origin must be local names.
func allowsHost(x *exchange) bool {
	host := x.req.headerValue("Host")
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if origin := x.req.headerValue("Origin"); origin != "" {
		_, rest, _ := strings.Cut(origin, "://")
		if h, _, err := net.SplitHostPort(rest); err == nil {
			rest = h
		}
		if !isLocalHost(rest) {
			return false
		}
	}
	return isLocalHost(host)
}

func isLocalHost(host string) bool {
	host = strings.ToLower(strings.Trim(host, "[]"))
	if ip := net.ParseIP(host); ip != nil {
		return ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()
	}
	return host == "" || host == "localhost" || strings.HasSuffix(host, ".localhost") ||
		strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal")
}
