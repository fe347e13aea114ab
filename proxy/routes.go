package proxy

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"

	"penstock/proxy/auth"
	"penstock/proxy/browser"
	"penstock/proxy/guard"
	"penstock/proxy/httpserver"
	"penstock/proxy/listen"
	"penstock/translate/apierr"
)

// endpoints are the generation endpoints, each a POST.
var endpoints = []*endpoint{
	endpointChat,
	endpointResponses,
	endpointMessages,
	endpointCountTokens,
	endpointTranscriptions,
	endpointSpeech,
	endpointEmbeddings,
	endpointRerank,
	endpointImages,
	endpointEdits,
	endpointCompletions,
}

// routes builds the public route table.
func (e *Edge) routes() fasthttp.RequestHandler {
	r := httpserver.NewRouter()
	r.NotFound = e.withoutAuth(e.notFound)
	r.MethodNotAllowed = e.withoutAuth(e.methodNotAllowed)
	for _, ep := range endpoints {
		r.POST(ep.path, e.services.handle(ep))
	}
	get := func(path string, h fasthttp.RequestHandler) {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	get("/v1/models", e.models)
	get("/v1/models/{id:*}", e.modelByID)
	get("/health", e.withoutAuth(e.health))
	for i := range documents {
		get(documents[i].path, e.withoutAuth(documents[i].serve))
	}
	r.HEAD("/", e.withoutAuth(e.headRoot))
	return e.everyRequest(r.Handler)
}

// everyRequest is what every request passes first: a head that two parsers could read differently
// is refused, and a panic ends one request only.
func (e *Edge) everyRequest(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer e.guard.Catch(guard.Handler, func() { e.respondError(ctx, dialectOf(ctx), internalError(errPanicked).api) })
		if c := listen.ConnOf(ctx.Conn()); c != nil && ctx.Request.Header.ConnectionClose() && announced(&ctx.Request.Header) > 0 {
			c.Linger()
		}
		if err := httpserver.Check(ctx); err != nil {
			ctx.SetConnectionClose()
			if !e.rejectConnect(ctx) {
				e.respondError(ctx, dialectOf(ctx), err)
			}
			return
		}
		if !ctx.Request.Header.IsHTTP11() || chunkedForNobody(ctx) {
			ctx.SetConnectionClose()
		}
		snap := e.reloads.Running()
		origins := snap.Config.CORS.Origins
		if snap.Open() {
			if err := browser.CheckPage(&ctx.Request.Header, snap.Hosts, origins); err != nil {
				e.respondError(ctx, dialectOf(ctx), err)
				return
			}
		}
		origin := browser.AllowedOrigin(ctx, origins)
		if origin != "" && browser.IsPreflight(ctx) {
			browser.Preflight(ctx, origin, func(h *fasthttp.ResponseHeader) { commonHeaders(h, appendRequestID(nil)) })
			return
		}
		next(ctx)
		if origin != "" {
			browser.Share(&ctx.Response.Header, origin)
		}
		if e.draining.Load() { // now, and not when the call began
			ctx.SetConnectionClose()
		}
	}
}

// chunkedForNobody reports whether a request has a chunked body that no endpoint will read to its
// end.
func chunkedForNobody(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	return h.ContentLength() == -1 && (!h.IsPost() || endpointAt(path) == nil)
}

// withoutAuth wraps handlers that need no credential and read none from the headers. A credential
// in the query string is refused even there: it may already be in a proxy's log, so the client is
// told.
func (e *Edge) withoutAuth(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		var refused *apierr.Error
		if errors.As(auth.CheckQuery(ctx.URI().QueryString()), &refused) {
			e.respondError(ctx, dialectOf(ctx), refused)
			return
		}
		next(ctx)
	}
}

// rejectConnect refuses CONNECT and TRACE before the router, which would answer with an Allow
// header for a target that is not a path of the edge. It returns false for every other method.
func (e *Edge) rejectConnect(ctx *fasthttp.RequestCtx) bool {
	if h := &ctx.Request.Header; !h.IsConnect() && !h.IsTrace() {
		return false
	}
	e.respondError(ctx, dialectChat, apierr.New(fasthttp.StatusMethodNotAllowed, apierr.CodeMethodNotAllowed, "This method is not served."))
	ctx.Response.Header.Set("Allow", "GET, HEAD, POST")
	return true
}

// notFound keeps the shape of the dialect that the path is meant for as far as it can be told.
func (e *Edge) notFound(ctx *fasthttp.RequestCtx) {
	e.respondError(ctx, dialectOf(ctx), apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path. The API is under /v1; see /v1/models."))
}

// methodNotAllowed answers with the Allow header that the router has set.
func (e *Edge) methodNotAllowed(ctx *fasthttp.RequestCtx) {
	if string(ctx.URI().PathOriginal()) == "/*" { // to the router that is the server as a whole
		ctx.Response.Header.Del("Allow")
		e.notFound(ctx)
		return
	}
	allow, err := httpserver.WrongMethod(ctx)
	e.respondError(ctx, dialectOf(ctx), err)
	ctx.Response.Header.Set("Allow", allow)
}
