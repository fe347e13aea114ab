package proxy

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/httpserver"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/websocket"
	"penstock/translate/apierr"
)

func (p *publicAPI) newRouter() fasthttp.RequestHandler {
	r := httpserver.NewEmptyRouter()
	r.NotFound = p.withoutAuth(p.respondNotFound)
	r.MethodNotAllowed = p.withoutAuth(p.respondMethodNotAllowed)
	calls := make([]fasthttp.RequestHandler, len(endpoint.AllEndpoints))
	for i, ep := range endpoint.AllEndpoints {
		calls[i] = p.services.Handler(ep)
		r.POST(ep.Path, calls[i]) // makes the router list the methods that the path accepts
	}
	get := func(path string, h fasthttp.RequestHandler) {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	r.GET(endpoint.RealtimeEndpoint.Path, p.serveRealtime)
	get("/v1/models", p.serveModelList)
	get("/v1/models/{id:*}", p.serveModelByID)
	get("/health", p.withoutAuth(p.serveHealth))
	for i := range apiDocuments {
		get(apiDocuments[i].path, p.withoutAuth(apiDocuments[i].serve))
	}
	r.GET("/", p.withoutAuth(p.serveRoot))
	r.HEAD("/", p.withoutAuth(p.serveHeadRoot))
	return func(ctx *fasthttp.RequestCtx) {
		if ctx.IsPost() { // searching a short list takes a tenth of the router's time
			path := ctx.URI().PathOriginal()
			for i, ep := range endpoint.AllEndpoints {
				if string(path) == ep.Path {
					calls[i](ctx)
					return
				}
			}
		}
		r.Handler(ctx)
	}
}

func (p *publicAPI) serveRealtime(ctx *fasthttp.RequestCtx) {
	if refused := p.sessions.Serve(ctx); refused != nil {
		p.respondError(ctx, endpoint.RealtimeEndpoint.Dialect, refused)
	}
}

// allowedMethods lists the methods that at least one path of the edge accepts.
const allowedMethods = "GET, HEAD, POST"

// rejectConnectAndTrace rejects CONNECT and TRACE. The router would respond with an Allow header for a
// target that is not a path of the edge.
func (p *publicAPI) rejectConnectAndTrace(ctx *fasthttp.RequestCtx) bool {
	if h := &ctx.Request.Header; !h.IsConnect() && !h.IsTrace() {
		return false
	}
	p.respondError(ctx, endpoint.ChatDialect, apierr.New(fasthttp.StatusMethodNotAllowed,
		apierr.CodeMethodNotAllowed, "This method is not served."))
	ctx.Response.Header.Set("Allow", allowedMethods)
	return true
}

// respondNotFound responds with 404. The response names the endpoint that the client probably
// meant, and does not repeat the client's text.
func (p *publicAPI) respondNotFound(ctx *fasthttp.RequestCtx) {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	hint := "The API is under /v1; see /v1/models."
	if ep := endpoint.NearestEndpointByPath(path); ep != nil {
		hint = "Send it to " + ep.Path + "; mind the end of the base URL."
	}
	p.respondError(ctx, endpoint.RequestDialect(ctx),
		apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path. %s", hint))
}

// respondMethodNotAllowed responds with 405 and the Allow header that the router has set. It also
// handles a GET that requests a WebSocket, because such a GET has no separate route.
func (p *publicAPI) respondMethodNotAllowed(ctx *fasthttp.RequestCtx) {
	if websocket.IsResponsesUpgrade(ctx) {
		ctx.Response.Header.Del("Allow")
		if refused := p.websockets.Upgrade(ctx); refused != nil {
			p.respondError(ctx, endpoint.ResponsesEndpoint.Dialect, refused)
		}
		return
	}
	if string(ctx.URI().PathOriginal()) == "/*" { // the router's path for OPTIONS *
		ctx.Response.Header.Del("Allow")
		p.respondNotFound(ctx)
		return
	}
	allow, err := httpserver.MethodNotAllowed(ctx)
	p.respondError(ctx, endpoint.RequestDialect(ctx), err)
	ctx.Response.Header.Set("Allow", allow)
}
