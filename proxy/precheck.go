package proxy

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/guard"
	"penstock/proxy/httpserver"
	"penstock/proxy/listen"
	"penstock/translate/apierr"
)

// A refusal that needs no body must not wait for one. fasthttp reads the first bytes of a body
// before it calls the handler, so its two earlier hooks decide here: headReceived for a body with
// an announced length, expectContinue for a body that waits for "100 Continue".

// precheckAbove is the announced length above which a request is checked before its body. A smaller
// body nearly always arrives in the same packet as its head.
const precheckAbove = 8 << 10

// headReceived runs when a request's head has arrived. If the request will be refused whatever its
// body says, headReceived removes the body's length: the handler then refuses the request at once,
// and the connection ends with that answer.
func (p *publicAPI) headReceived(h *fasthttp.RequestHeader) (conf fasthttp.RequestConfig) {
	defer p.services.Guard.Catch(guard.Connection, nil)
	p.services.Guard.Point("head.received")
	n := h.ContentLength()
	if n == 0 {
		h.Del(headerAnnounced) // a client cannot set it
		return conf
	}
	conf.ReadTimeout = p.services.Current().Config.Timeouts.ClientBody.D() // until the body's first byte; then body.go's
	if n > precheckAbove && p.precheck(h, int64(n)) != nil {
		h.Set(headerAnnounced, strconv.Itoa(n))
		h.SetConnectionClose()
		h.SetContentLength(0)
	}
	return conf
}

// headerAnnounced marks a request whose body was cut off by headReceived; its value is the
// announced length.
const headerAnnounced = "X-Penstock-Announced"

// announced returns the length of the body that the client announced, even if headReceived has
// removed it; -1 for a chunked body.
func announced(h *fasthttp.RequestHeader) int64 {
	n := int64(h.ContentLength())
	if n != 0 {
		return n
	}
	if v := h.Peek(headerAnnounced); len(v) > 0 {
		n, _ = strconv.ParseInt(string(v), 10, 64)
	}
	return n
}

// precheck returns why a request will be refused whatever its body says, or nil. n is the body's
// announced length.
func (p *publicAPI) precheck(h *fasthttp.RequestHeader, n int64) *apierr.Error {
	if err := httpserver.CheckHead(h); err != nil {
		return err
	}
	path, query, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	ep := endpointAt(path)
	if ep == nil || !h.IsPost() {
		return apierr.NotFound(apierr.CodeNotFound, "There is nothing at this path.")
	}
	snap := p.services.Current()
	key, err := snap.Authenticate(h, query, time.Now())
	var a *apierr.Error
	switch {
	case errors.As(err, &a):
		return a
	case key == nil && !snap.Open():
		return apierr.Unauthorized(apierr.CodeInvalidAPIKey)
	case key != nil && !key.AllowsOp(ep.operation):
		return apierr.OperationNotAllowed()
	}
	if limit := bodyLimit(snap.Config, ep); n > limit {
		return bodyTooLarge(limit)
	}
	if a := checkBodyHead(h, ep); a != nil {
		return a
	}
	return nil
}

func endpointAt(path []byte) *endpoint {
	for _, ep := range endpoints {
		if string(path) == ep.path {
			return ep
		}
	}
	return nil
}

// expectContinue answers "Expect: 100-continue" (RFC 9110, 10.1.1). It invites the body only if
// precheck does not refuse the request. It returns the status to answer with; for a refusal the
// response is complete.
func (p *publicAPI) expectContinue(ctx *fasthttp.RequestCtx) (status int) {
	defer p.services.Guard.Catch(guard.Connection, func() {
		ctx.SetConnectionClose()
		p.respondError(ctx, dialectOf(ctx), internalError(errPanicked).api)
		status = fasthttp.StatusInternalServerError
	})
	p.services.Guard.Point("expect")
	h := &ctx.Request.Header
	a := p.precheck(h, announced(h))
	if a == nil {
		return fasthttp.StatusContinue
	}
	path, _, _ := bytes.Cut(h.RequestURI(), []byte{'?'})
	if c := listen.ConnOf(ctx.Conn()); c != nil {
		c.Linger()
	}
	p.respondError(ctx, dialectAt(path), a)
	return ctx.Response.StatusCode()
}
