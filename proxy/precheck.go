package proxy

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/auth"
	"penstock/proxy/front/httpserver"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/proxy/request/call"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/guard"
	"penstock/translate/apierr"
)

// If the edge can reject a request regardless of the body, it must not wait for the body. fasthttp
// reads the first bytes of a body before it calls the handler. Two hooks therefore check the
// request earlier: checkReceivedHead checks requests with an announced length, and
// handleExpectContinue checks requests that wait for "100 Continue".

// A body of at most precheckMinBytes bytes nearly always arrives in the same packet as its head.
const precheckMinBytes = 8 << 10

// recentKeyPool caches the hashes of keys that precheck has checked recently. precheck does not
// know the connection, which has its own cache. An entry may be compared with another client's key,
// so the comparison must take constant time, as in LastKeyCache.
var recentKeyPool = sync.Pool{New: func() any { return new(auth.LastKeyCache) }}

// checkReceivedHead checks a request with a body. If the request will be rejected regardless of the
// body, checkReceivedHead removes the body's length. The handler can therefore reject the request
// without reading the body, and the connection is closed after the response.
func (p *publicAPI) checkReceivedHead(h *fasthttp.RequestHeader) (conf fasthttp.RequestConfig) {
	defer p.services.Guard.Catch(guard.PlaceConnection, nil)
	p.services.Guard.PanicIfInjected("head.received")
	httpserver.ToOriginForm(h)
	n := h.ContentLength()
	if n <= 0 && n != -1 { // no body: the length is 0 or absent (-2); -1 means a chunked body
		h.Del(fasthttp.HeaderExpect) // a request without a body does not wait for "100 Continue"
		body.StripAnnouncedLengthHeader(h)
		return conf
	}
	// This timeout limits the wait for the body's first byte. Package body applies its timeouts to
	// the remaining body.
	conf.ReadTimeout = p.services.Current().Config.Timeouts.ClientBody.D()
	if n > precheckMinBytes && p.precheck(h, int64(n)) != nil {
		body.DropAnnouncedBody(h)
	}
	return conf
}

// precheck returns the error with which a request will be rejected regardless of the body, or nil.
// n is the announced body length.
func (p *publicAPI) precheck(h *fasthttp.RequestHeader, n int64) *apierr.Error {
	if err := httpserver.CheckHead(h); err != nil {
		return err
	}
	path, query, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	ep := endpoint.EndpointByPath(path)
	if ep == nil || !h.IsPost() {
		return apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path.")
	}
	snap := p.services.Current()
	var key *auth.Key
	// The client's certificate is not known here, so the handler will check it.
	if !snap.Keys.TakesCertificates() {
		last := recentKeyPool.Get().(*auth.LastKeyCache)
		var err error
		key, err = call.Authenticate(snap, h, query, auth.ClientConnection{Last: last}, ep, time.Now())
		recentKeyPool.Put(last)
		if err != nil {
			if a := (*apierr.Error)(nil); errors.As(err, &a) {
				return a
			}
		}
	}
	if limit := ep.BodyLimit(snap.Config, key.BodyLimits()); n > limit {
		return apierr.TooLarge(limit)
	}
	return body.CheckBodyHeaders(h, ep.Form)
}

// handleExpectContinue handles "Expect: 100-continue" (RFC 9110, 10.1.1). It returns the status of
// the response. If the request is rejected, handleExpectContinue has already written the response.
func (p *publicAPI) handleExpectContinue(ctx *fasthttp.RequestCtx) (status int) {
	defer p.services.Guard.Catch(guard.PlaceConnection, func() {
		ctx.SetConnectionClose()
		p.respondError(ctx, endpoint.RequestDialect(ctx), apierr.InternalError(failure.ErrPanicked))
		status = fasthttp.StatusInternalServerError
	})
	p.services.Guard.PanicIfInjected("expect")
	h := &ctx.Request.Header
	a := p.precheck(h, body.AnnouncedLength(h))
	if a == nil {
		return fasthttp.StatusContinue
	}
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	if c := listen.UnwrapConn(ctx.Conn()); c != nil {
		c.LingerOnClose()
	}
	p.respondError(ctx, endpoint.DialectByPath(path), a)
	return ctx.Response.StatusCode()
}
