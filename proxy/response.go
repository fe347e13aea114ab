package proxy

import (
	"errors"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
)

// commonHeaders sets the headers of every answer. The request id has two names because SDKs read
// different ones.
func (c *Call) commonHeaders() {
	h := &c.ctx.Response.Header
	commonHeaders(h, c.id)
	if c.allowance != nil && c.allowance.Limited() {
		c.rateHeaders(h)
	}
	if c.upload != nil && !c.upload.ended {
		_ = c.closeAfterResponse(nil)
	} else if c.upload != nil {
		c.endChunked()
	}
	if c.snap.Config.Log.DebugHeaders {
		h.Set("X-Penstock-Model", c.record.Model)
		h.Set("X-Penstock-Pool", c.record.Pool)
		h.Set("X-Penstock-Upstream", c.record.Upstream)
		if c.record.Code != "" {
			h.Set("X-Penstock-Code", c.record.Code)
		}
		h.Set("X-Penstock-Attempts", strconv.Itoa(c.attempts()))
		h.Set("X-Penstock-Queue-Ms", strconv.FormatInt(c.record.Queue.Milliseconds(), 10))
	}
}

var overloaded = []byte("Overloaded")

func commonHeaders(h *fasthttp.ResponseHeader, id []byte) {
	h.SetCanonical(headerRequestID, id)
	h.SetCanonical(headerXRequestID, id)
	h.SetCanonical(headerCacheControl, noStore)
}

// In the form that fasthttp would otherwise bring them to for each answer.
var (
	headerRequestID    = []byte("Request-Id")
	headerXRequestID   = []byte("X-Request-Id")
	headerCacheControl = []byte("Cache-Control")
	noStore            = []byte("no-store")
)

// errorHeaders sets the headers of e's status.
func errorHeaders(h *fasthttp.ResponseHeader, e *apierr.Error) {
	if e.Status == apierr.StatusOverloaded {
		h.SetStatusMessage(overloaded) // 529 is not registered, so fasthttp has no text for it
	}
	if e.Status == fasthttp.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if n := e.RetryAfterSeconds(); n > 0 {
		h.Set("Retry-After", strconv.Itoa(n))
	}
}

// respondError answers a request that is no call: its head did not parse, or its path does not
// exist.
func (p *publicAPI) respondError(ctx *fasthttp.RequestCtx, d *dialect, err *apierr.Error) {
	err = d.errorOf(err)
	if errors.Is(err.Cause, errClientGone) {
		p.services.Calls.Left()
	} else {
		p.services.Calls.Refused(err.Code)
	}
	writeError(ctx, d, err)
}

// writeError makes the answer of an error in a dialect's own words.
func writeError(ctx *fasthttp.RequestCtx, d *dialect, err *apierr.Error) {
	id := appendRequestID(nil)
	ctx.Response.ResetBody()
	ctx.SetStatusCode(err.Status)
	ctx.Response.Header.SetContentType("application/json")
	commonHeaders(&ctx.Response.Header, id)
	errorHeaders(&ctx.Response.Header, err)
	ctx.Response.SetBody(d.appendError(nil, err, string(id)))
}

// extendWrite gives the next write to the client its time.
func (c *Call) extendWrite() {
	if c.conn == nil {
		return
	}
	d := c.snap.Config.Timeouts.Write.D()
	if c.model != nil {
		d = c.model.Clocks.Write.D()
	}
	c.conn.SetWriteTimeout(d)
}
