package proxy

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"net"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/status"
	"penstock/translate/apierr"
)

// The admin listener is the operator's: metrics, state, readiness and reloads. It is a listener of its own, so that no path of it can be
// reached from the public side.

func (e *Edge) adminServer(c *config.File) *fasthttp.Server {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		e.respondError(ctx, dialectChat, apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path. The admin listener has /metrics, /status, /-/ready and /-/reload."))
	}
	r.MethodNotAllowed = e.methodNotAllowed
	for path, h := range map[string]fasthttp.RequestHandler{
		"/metrics": e.operator(e.writeMetrics),
		"/status":  e.operator(e.writeStatus),
		"/-/ready": e.ready,
	} {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	r.POST("/-/reload", e.operator(e.reloadRequested))
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			defer e.rescue(func() { e.respondError(ctx, dialectChat, internalError(errPanicked).api) })
			if !localRequest(ctx, e.opts.Admin.Addr()) {
				e.respondError(ctx, dialectChat, apierr.New(fasthttp.StatusForbidden, apierr.CodeOperationNotAllowed, "The admin listener answers its own address only."))
				return
			}
			r.Handler(ctx)
		},
		ReadTimeout:           c.Timeouts.ClientHeader.D(),
		IdleTimeout:           c.Timeouts.ClientIdle.D(),
		WriteTimeout:          c.Timeouts.Write.D(),
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		Logger:                quiet{},
	}
}

// localRequest guards a loopback listener against web pages: a browser that was lured to it sends an Origin, or a Host
// that is not an address of this machine (DNS rebinding). Off loopback the token is the guard.
func localRequest(ctx *fasthttp.RequestCtx, listening net.Addr) bool {
	if tcp, ok := listening.(*net.TCPAddr); ok && !tcp.IP.IsLoopback() {
		return true
	}
	if len(ctx.Request.Header.Peek("Origin")) > 0 {
		return false
	}
	host := string(ctx.Host())
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// operator lets a request pass that carries the admin token, when there is one.
func (e *Edge) operator(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		token := e.current.Load().Config.Admin.Token.Value()
		given, _ := bytes.CutPrefix(ctx.Request.Header.Peek(fasthttp.HeaderAuthorization), []byte("Bearer "))
		if token != "" && subtle.ConstantTimeCompare(given, []byte(token)) != 1 {
			e.respondError(ctx, dialectChat, apierr.New(fasthttp.StatusUnauthorized, apierr.CodeInvalidAPIKey, "The admin token is missing or wrong: send it as \"Authorization: Bearer TOKEN\"."))
			return
		}
		next(ctx)
	}
}

// ready says whether a balancer may send new requests: 503 while draining.
func (e *Edge) ready(ctx *fasthttp.RequestCtx) {
	commonHeaders(&ctx.Response.Header, appendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	if e.draining.Load() {
		ctx.SetStatusCode(fasthttp.StatusServiceUnavailable)
		ctx.Response.SetBodyString(`{"status":"draining"}`)
		return
	}
	ctx.Response.SetBodyString(`{"status":"ready"}`)
}

// reloadRequested reloads and answers with what changed, or with what is wrong.
func (e *Edge) reloadRequested(ctx *fasthttp.RequestCtx) {
	r := e.reloadNow("request")
	if !r.OK {
		ctx.SetStatusCode(fasthttp.StatusUnprocessableEntity)
	}
	respondJSON(ctx, r)
}

// writeStatus answers with the state of every upstream and route.
func (e *Edge) writeStatus(ctx *fasthttp.RequestCtx) {
	now := e.now()
	s := status.Of(e.current.Load().Routes, e.set.All(), now)
	s.Version, s.Started, s.Draining, s.InFlight = e.current.Load().Version, e.started, e.draining.Load(), e.calls.InFlight()
	if r := e.lastReload.Load(); r != nil {
		s.LastReload = r
	}
	respondJSON(ctx, s)
}

func respondJSON(ctx *fasthttp.RequestCtx, v any) {
	commonHeaders(&ctx.Response.Header, appendRequestID(nil))
	ctx.Response.Header.SetContentType("application/json")
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		ctx.SetStatusCode(fasthttp.StatusInternalServerError)
		return
	}
	ctx.Response.SetBody(append(body, '\n'))
}
