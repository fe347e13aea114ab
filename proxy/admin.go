package proxy

import (
	"bytes"
	"crypto/subtle"
	"net"

	"github.com/VictoriaMetrics/metrics"
	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/translate/apierr"
)

// The admin listener is the operator's: metrics and readiness. It is a listener of its own, so that no path of it can be
// reached from the public side.

func (e *Edge) adminServer(c *config.File) *fasthttp.Server {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	r.NotFound = func(ctx *fasthttp.RequestCtx) {
		e.respondError(ctx, dialectChat, apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path. The admin listener has /metrics and /-/ready."))
	}
	r.MethodNotAllowed = e.methodNotAllowed
	for path, h := range map[string]fasthttp.RequestHandler{
		"/metrics": e.operator(e.writeMetrics),
		"/-/ready": e.ready,
	} {
		r.GET(path, h)
		r.HEAD(path, h)
	}
	return &fasthttp.Server{
		Handler: func(ctx *fasthttp.RequestCtx) {
			defer e.rescue(func() { e.respondError(ctx, dialectChat, internalError(errPanicked).api) })
			if !localRequest(ctx, c.Admin.Listen) {
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
func localRequest(ctx *fasthttp.RequestCtx, listenAddr string) bool {
	if !loopback(listenAddr) {
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

// loopback reports whether a listen address can be reached from this machine only.
func loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
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

func (e *Edge) writeMetrics(ctx *fasthttp.RequestCtx) {
	ctx.Response.Header.SetContentType("text/plain; version=0.0.4; charset=utf-8")
	ctx.Response.Header.Set("Cache-Control", "no-store")
	var b bytes.Buffer
	e.metrics.WritePrometheus(&b)
	e.registry.write(&b)
	metrics.WriteProcessMetrics(&b)
	ctx.Response.SetBody(b.Bytes())
}

// observeSelf registers the gauges of the edge's own state.
func (e *Edge) observeSelf() {
	gauge := func(name string, f func() float64) { e.metrics.NewGauge(name, f) }
	gauge("penstock_body_memory_bytes", func() float64 { return float64(e.memory.Used()) })
	gauge("penstock_body_memory_limit_bytes", func() float64 { return float64(e.memory.Limit()) })
	gauge("penstock_config_version", func() float64 { return float64(e.current.Load().Version) })
	gauge("penstock_client_connections", func() float64 { return float64(e.watch.Open()) })
	gauge("penstock_accept_errors", func() float64 { return float64(e.watch.AcceptErrors()) })
	gauge("penstock_client_connections_rejected", func() float64 { return float64(e.watch.Rejected()) })
	if e.opts.LogDropped != nil {
		gauge("penstock_log_dropped", func() float64 { return float64(e.opts.LogDropped()) })
	}
}
