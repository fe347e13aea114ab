package httpserver

import (
	"net"
	"strings"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/front/listen"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

// New returns a server with the settings common to all listeners. The caller sets its handlers.
func New(f *config.File, g *guard.Guard) *fasthttp.Server {
	return &fasthttp.Server{
		ConnState:   func(c net.Conn, state fasthttp.ConnState) { onConnState(g, c, state) },
		ReadTimeout: f.Timeouts.ClientHeader.D(),
		IdleTimeout: f.Timeouts.ClientIdle.D(),
		// fasthttp limits the request headers to the size of this buffer.
		ReadBufferSize:        int(f.Limits.Header),
		NoDefaultServerHeader: true,
		NoDefaultContentType:  true,
		CloseOnShutdown:       true,
		SecureErrorLogMessage: true,
		Logger:                discardLogger{},
	}
}

func onConnState(g *guard.Guard, c net.Conn, state fasthttp.ConnState) {
	defer g.Catch(guard.PlaceConnection, nil)
	switch state { //nolint:exhaustive // the others say nothing about it
	case fasthttp.StateNew, fasthttp.StateIdle:
		listen.SetConnIdle(c)
	case fasthttp.StateActive:
		listen.SetConnActive(c)
	}
}

// discardLogger drops fasthttp's messages, because they contain parts of requests.
type discardLogger struct{}

func (discardLogger) Printf(string, ...any) {}

// NewEmptyRouter returns a router that matches raw paths exactly, without redirects or path
// normalization.
func NewEmptyRouter() *router.Router {
	r := router.New()
	r.RedirectTrailingSlash, r.RedirectFixedPath, r.HandleOPTIONS = false, false, false
	return r
}

// MethodNotAllowed returns the methods that the path accepts, and the error that lists them. It
// reads the methods from the router's response.
func MethodNotAllowed(ctx *fasthttp.RequestCtx) (allow string, err *apierr.Error) {
	// The router also lists OPTIONS, which the edge does not support here.
	allow = strings.TrimPrefix(string(ctx.Response.Header.Peek("Allow")), "OPTIONS, ")
	allow = strings.TrimSuffix(allow, ", OPTIONS")
	return allow, apierr.New(fasthttp.StatusMethodNotAllowed, apierr.CodeMethodNotAllowed,
		"This path takes %s only.", allow)
}
