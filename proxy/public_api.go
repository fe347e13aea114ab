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

// publicAPI answers clients. It refuses invalid HTTP, passes calls to their endpoints, and answers
// the requests that are not calls (routes.go).
type publicAPI struct {
	services   *call.Services
	websockets *websocket.Carrier
	sessions   *realtime.Sessions
	draining   func() bool
}

// writeBuffer is the size of a write buffer. A complete small answer or event fits, so that one
// write suffices. Every open stream has such a buffer.
const writeBuffer = 2 << 10

// server returns the HTTP server of the public listener.
func (p *publicAPI) server(c *config.File) *fasthttp.Server {
	s := httpserver.New(c, p.services.Guard)
	s.Handler, s.ErrorHandler = p.everyRequest(p.routes()), p.headError
	s.HeaderReceived, s.ExpectHandler = p.headReceived, p.expectContinue
	s.StreamRequestBody, s.DisablePreParseMultipartForm = true, true
	// limits how far fasthttp reads ahead; package body applies the real limits
	s.MaxRequestBodySize = 1
	s.WriteBufferSize = writeBuffer
	s.Concurrency = math.MaxInt32 // the listener has its own limit, which follows reloads
	s.ReduceMemoryUsage = true
	s.LazyRequestTime = true // calls read the clock themselves
	return s
}

// everyRequest wraps every handler. It refuses a head that two parsers could read differently, and
// confines a panic to one request.
func (p *publicAPI) everyRequest(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		defer p.services.Guard.Catch(guard.Handler, func() {
			p.respondError(ctx, endpoint.DialectOf(ctx),
				apierr.Internal(failure.ErrPanicked))
		})
		listen.RequestReceived(ctx.Conn())
		if c := listen.ConnOf(ctx.Conn()); c != nil && ctx.Request.Header.ConnectionClose() &&
			body.Announced(&ctx.Request.Header) > 0 {
			c.Linger()
		}
		if err := httpserver.Check(ctx); err != nil {
			ctx.SetConnectionClose()
			if !p.rejectConnect(ctx) {
				p.respondError(ctx, endpoint.DialectOf(ctx), err)
			}
			return
		}
		if httpserver.AnswerWholeServer(ctx, allowedAnywhere) {
			return
		}
		echoClientID(ctx)
		if !ctx.Request.Header.IsHTTP11() || chunkedForNobody(ctx) {
			ctx.SetConnectionClose()
		}
		snap := p.services.Current()
		origins := snap.Config.CORS.Origins
		if snap.Open() {
			if err := browser.CheckPage(&ctx.Request.Header, snap.Hosts, origins); err != nil {
				p.respondError(ctx, endpoint.DialectOf(ctx), err)
				return
			}
		}
		origin := browser.AllowedOrigin(ctx, origins)
		if origin != "" && browser.IsPreflight(ctx) {
			browser.Preflight(ctx, origin, func(h *fasthttp.ResponseHeader) {
				endpoint.CommonHeaders(h,
					endpoint.AppendRequestID(nil))
			})
			return
		}
		next(ctx)
		if origin != "" {
			browser.Share(&ctx.Response.Header, origin)
		}
		if p.draining() { // the current state, not the state at the start of the call
			ctx.SetConnectionClose()
		}
	}
}

const longestClientID = 512

var headerClientID = []byte("X-Client-Request-Id")

// echoClientID sends the client's own request id back to the client. No log contains that id.
func echoClientID(ctx *fasthttp.RequestCtx) {
	id := ctx.Request.Header.PeekCanonical(headerClientID)
	if len(id) == 0 || len(id) > longestClientID {
		return
	}
	for _, c := range id {
		if c <= ' ' || c > '~' {
			return
		}
	}
	ctx.Response.Header.SetCanonical(headerClientID, id)
}

// chunkedForNobody reports whether a request has a chunked body that no endpoint will read to the
// end.
func chunkedForNobody(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Request.Header
	if h.ContentLength() != -1 {
		return false
	}
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	return !h.IsPost() || endpoint.At(path) == nil
}

// withoutAuth wraps handlers that need no credential and read none from the headers. They also
// refuse a credential in the query string, so that the client notices that the credential may be in
// a proxy's log.
func (p *publicAPI) withoutAuth(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		var refused *apierr.Error
		if errors.As(auth.CheckQuery(ctx.URI().QueryString()), &refused) {
			p.respondError(ctx, endpoint.DialectOf(ctx), refused)
			return
		}
		next(ctx)
	}
}

// headError answers a request whose head did not parse, or that ended before the first byte of its
// body. The connection is closed after that answer.
func (p *publicAPI) headError(ctx *fasthttp.RequestCtx, err error) {
	defer p.services.Guard.Catch(guard.Connection, func() { ctx.SetStatusCode(fasthttp.StatusInternalServerError) })
	p.services.Guard.Point("head.error")
	refusal, path := httpserver.Unparsed(ctx, err)
	if c := listen.ConnOf(ctx.Conn()); c != nil {
		c.SetWriteTimeout(p.services.Current().Config.Timeouts.Write.D())
		c.Linger()
	}
	if !p.rejectConnect(ctx) {
		p.respondError(ctx, endpoint.DialectAt(path), refusal)
	}
}

// respondError answers a request that is not a call: its head did not parse, or its path does
// not exist.
func (p *publicAPI) respondError(ctx *fasthttp.RequestCtx, d *endpoint.Dialect, err *apierr.Error) {
	err = d.ErrorOf(err)
	if errors.Is(err.Cause, failure.ErrClientGone) {
		p.services.Calls.Left()
	} else {
		p.services.Calls.Refused(err.Code)
	}
	d.WriteError(ctx, err, endpoint.AppendRequestID(nil))
}
