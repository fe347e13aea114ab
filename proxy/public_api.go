package proxy

import (
	"bytes"
	"errors"
	"math"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/access/auth"
	"penstock/proxy/front/browser"
	"penstock/proxy/front/httpserver"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/request/realtime"
	"penstock/proxy/request/websocket"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

// publicAPI serves clients. It rejects invalid HTTP, passes calls to their endpoints, and handles
// all other requests (routes.go).
type publicAPI struct {
	services   *call.Services
	websockets *websocket.Server
	sessions   *realtime.Sessions
	draining   func() bool
}

// writeBufferBytes is the size of the write buffer that every open stream has. It is enough for a
// small response or event.
const writeBufferBytes = 2 << 10

func (p *publicAPI) newServer(c *config.File) *fasthttp.Server {
	s := httpserver.New(c, p.services.Guard)
	s.Handler, s.ErrorHandler = p.withRequestChecks(p.newRouter()), p.handleHeadError
	s.HeaderReceived, s.ExpectHandler = p.checkReceivedHead, p.handleExpectContinue
	s.StreamRequestBody, s.DisablePreParseMultipartForm = true, true
	// MaxRequestBodySize limits how far fasthttp reads ahead. Package body applies the actual
	// limits.
	s.MaxRequestBodySize = 1
	s.WriteBufferSize = writeBufferBytes
	s.Concurrency = math.MaxInt32 // the listener has a separate limit, which reloads can change
	s.ReduceMemoryUsage = true
	s.LazyRequestTime = true // calls read the clock themselves
	return s
}

// withRequestChecks rejects a request head that two parsers could interpret differently, and limits
// the effect of a panic to one request.
func (p *publicAPI) withRequestChecks(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer p.services.Guard.Catch(guard.PlaceHandler, func() {
			p.respondError(ctx, endpoint.RequestDialect(ctx),
				apierr.InternalError(failure.ErrPanicked))
		})
		listen.MarkHeadersReceived(ctx.Conn())
		if c := listen.UnwrapConn(ctx.Conn()); c != nil && ctx.Request.Header.ConnectionClose() &&
			body.AnnouncedLength(&ctx.Request.Header) > 0 {
			c.LingerOnClose()
		}
		if err := httpserver.CheckRequest(ctx); err != nil {
			closeAfterResponse(ctx)
			if !p.rejectConnectAndTrace(ctx) {
				p.respondError(ctx, endpoint.RequestDialect(ctx), err)
			}
			return
		}
		if httpserver.AnswerOptionsStar(ctx, allowedMethods) {
			return
		}
		echoClientID(ctx)
		if !ctx.Request.Header.IsHTTP11() || hasUnreadChunkedBody(ctx) {
			closeAfterResponse(ctx)
		}
		snap := p.services.Current()
		origins := snap.Config.CORS.Origins
		if snap.AllowsAnonymous() {
			if err := browser.CheckPageRequest(&ctx.Request.Header, snap.Hosts, origins); err != nil {
				p.respondError(ctx, endpoint.RequestDialect(ctx), err)
				return
			}
		}
		origin := browser.AllowedOrigin(ctx, origins)
		if origin != "" && browser.IsPreflight(ctx) {
			browser.AnswerPreflight(ctx, origin, func(h *fasthttp.ResponseHeader) {
				endpoint.SetCommonHeaders(h,
					endpoint.AppendNewRequestID(nil))
			})
			return
		}
		next(ctx)
		if origin != "" {
			browser.SetAllowedOrigin(&ctx.Response.Header, origin)
		} else if len(origins) > 0 { // a cache must not serve this response to an allowed page
			browser.VaryByOrigin(&ctx.Response.Header)
		}
		if p.draining() { // the current state, not the state at the start of the call
			ctx.SetConnectionClose()
		}
	}
}

// closeAfterResponse closes the connection after the response. If the request has a body, the
// connection lingers, so that a client that is still sending can read the response.
func closeAfterResponse(ctx *fasthttp.RequestCtx) {
	ctx.SetConnectionClose()
	if c := listen.UnwrapConn(ctx.Conn()); c != nil && body.AnnouncedLength(&ctx.Request.Header) != 0 {
		c.LingerOnClose()
	}
}

const maxClientIDBytes = 512

var headerClientID = []byte("X-Client-Request-Id")

// echoClientID sends the client's request id back to the client. The id is never logged.
func echoClientID(ctx *fasthttp.RequestCtx) {
	id := ctx.Request.Header.PeekCanonical(headerClientID)
	if len(id) == 0 || len(id) > maxClientIDBytes {
		return
	}
	for _, c := range id {
		if c <= ' ' || c > '~' {
			return
		}
	}
	ctx.Response.Header.SetCanonical(headerClientID, id)
}

// hasUnreadChunkedBody reports whether a request has a chunked body that no endpoint will read to
// the end.
func hasUnreadChunkedBody(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	if h.ContentLength() != -1 {
		return false
	}
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	return !h.IsPost() || endpoint.EndpointByPath(path) == nil
}

// withoutAuth wraps handlers that ignore credentials in headers. It rejects a credential in the
// query string, to tell the client that the credential may be in a proxy's log.
func (p *publicAPI) withoutAuth(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		var refused *apierr.Error
		if errors.As(auth.CheckQuery(ctx.URI().QueryString()), &refused) {
			p.respondError(ctx, endpoint.RequestDialect(ctx), refused)
			return
		}
		next(ctx)
	}
}

// handleHeadError responds to a request whose head could not be parsed, or that ended before the
// first byte of the body. After the response, the connection is closed.
func (p *publicAPI) handleHeadError(ctx *fasthttp.RequestCtx, err error) {
	defer p.services.Guard.Catch(guard.PlaceConnection, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	p.services.Guard.PanicIfInjected("head.error")
	refusal, path := httpserver.RequestParseError(ctx, err)
	if c := listen.UnwrapConn(ctx.Conn()); c != nil {
		c.SetWriteTimeout(p.services.Current().Config.Timeouts.Write.D())
		c.LingerOnClose()
	}
	if !p.rejectConnectAndTrace(ctx) {
		p.respondError(ctx, endpoint.DialectByPath(path), refusal)
	}
}

func (p *publicAPI) respondError(ctx *fasthttp.RequestCtx, d *endpoint.Dialect, err *apierr.Error) {
	err = d.ConvertError(err)
	if errors.Is(err.Cause, failure.ErrClientGone) {
		p.services.Calls.CountClientGone()
	} else {
		p.services.Calls.CountRefused(err.Code)
	}
	d.WriteError(ctx, err, endpoint.AppendNewRequestID(nil))
}
