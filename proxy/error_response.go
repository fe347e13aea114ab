package proxy

import (
	"net"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/observe"
	"penstock/translate/apierr"
)

// How a call that has failed is answered.

// refuse answers the call with an error in the endpoint's dialect and ends it.
func (c *Call) refuse(f *failure) {
	c.answerWith(f)
	c.finish()
}

func (c *Call) answerWith(f *failure) {
	c.attempt.end(f.outcome)
	c.fail(f)
	e := c.ep.dialect.errorOf(f.api)
	switch {
	case f.result != observe.ClientGone:
		c.record.Status = e.Status
		c.writeError(e)
	case f.api.Status != statusClientGone:
		c.writeError(e) // for one that has closed its sending side only
	case c.upload != nil && !c.upload.ended:
		c.writeError(bodyCut()) // likewise
	default:
		c.hangUp()
	}
	c.warn(f)
}

// panicked answers a call whose handler has panicked, and ends it even if the answering panics. A
// relay that the handler had handed over must not run.
func (c *Call) panicked() {
	defer c.finish()
	if c.relay != nil {
		c.relay.call, c.relay = nil, nil
		c.ctx.HijackSetNoResponse(false)
		c.ctx.Hijack(nil)
	}
	c.ctx.SetStatusCode(fasthttp.StatusInternalServerError)
	c.ctx.SetConnectionClose()
	c.answerWith(internalError(errPanicked))
}

// hangUp ends the connection without an answer: the client has left and reads none, and a client
// that has only closed its sending side must not take an answer for the end of its call.
func (c *Call) hangUp() {
	c.ctx.HijackSetNoResponse(true)
	c.ctx.Hijack(func(net.Conn) {}) // fasthttp closes it then
}

// warn logs an engine's failure, once a call and without any of the call's content.
func (c *Call) warn(f *failure) {
	if f.result == observe.UpstreamFail {
		c.shared.Log.Warn("upstream failed", zap.ByteString("request_id", c.id), zap.String("upstream", c.record.Upstream),
			zap.String("code", c.record.Code), zap.String("reason", reasonOf(f.api.Cause)))
	}
}

// writeError renders e as the response.
func (c *Call) writeError(e *apierr.Error) {
	c.extendWrite()
	c.ctx.Response.ResetBody()
	c.ctx.SetStatusCode(e.Status)
	c.ctx.Response.Header.SetContentType("application/json")
	c.commonHeaders()
	errorHeaders(&c.ctx.Response.Header, e)
	c.ctx.Response.SetBody(c.ep.dialect.appendError(nil, e, string(c.id)))
	c.record.BytesOut = int64(len(c.ctx.Response.Body()))
}
