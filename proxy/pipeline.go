package proxy

import (
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/proxy/guard"
	"penstock/proxy/observe"
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/upstreams"
)

// handle is the handler of a generation endpoint: the ten steps of doc.go, one call each.
func (s *Services) handle(ep *endpoint) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		c := s.begin(ctx, ep)
		defer s.Guard.Catch(guard.Handler, c.panicked)
		if f := c.run(); f != nil {
			c.refuse(f)
		} else if c.record.Outcome == observe.OK {
			c.finish() // a whole answer; a relay finishes its call itself
		}
	}
}

// run takes the call through its steps. It returns nil when the answer was handed to fasthttp.
func (c *Call) run() *failure {
	c.shared.Guard.Point("call.run")
	if err := c.authenticate(); err != nil {
		return clientError(err)
	}
	if err := c.admitRate(); err != nil {
		return clientError(err)
	}
	if err := c.readBody(bodyLimit(c.snap.Config, c.ep)); err != nil {
		return clientError(err)
	}
	if err := c.decode(); err != nil {
		return clientError(err)
	}
	if err := c.resolve(); err != nil {
		return clientError(err)
	}
	c.publishState()
	if c.conn != nil && c.conn.Watch(c) {
		return fromAbort(errClientGone)
	}
	c.asked = time.Now()
	if err := c.admit(); err != nil {
		return clientError(err)
	}
	c.setPhase(&phaseWaiting)
	if c.ep.local != nil {
		return c.ep.local(c)
	}
	c.shared.Retries.Call(c.record.Start)
	return c.dispatch()
}

// authenticate finds the key before one byte of the body is read.
func (c *Call) authenticate() error {
	key, err := c.snap.Authenticate(&c.ctx.Request.Header, c.ctx.URI().QueryString(), c.record.Start)
	if err != nil {
		return c.closeIfUnread(err)
	}
	if key == nil {
		if c.snap.Open() {
			return nil
		}
		return c.closeIfUnread(apierr.Unauthorized(apierr.CodeInvalidAPIKey))
	}
	c.key = key
	c.record.Key = key.ID
	if !key.AllowsOp(c.ep.operation) {
		return c.closeIfUnread(apierr.OperationNotAllowed())
	}
	return nil
}

// closeIfUnread is closeAfterResponse for a refusal before the body, if the request has one.
func (c *Call) closeIfUnread(err error) error {
	if announced(&c.ctx.Request.Header) != 0 {
		var e *apierr.Error
		if errors.As(err, &e) {
			return c.closeAfterResponse(e)
		}
	}
	return err
}

// decode reads the body in the endpoint's dialect.
func (c *Call) decode() error {
	if !c.ep.nonChat {
		c.chat = requestPool.Get().(*chat.Request)
	}
	var body []byte
	if c.body != nil {
		body = *c.body
	}
	if err := c.ep.decode(c, body); err != nil {
		return err
	}
	if c.chat != nil {
		c.record.Stream = c.chat.Stream
	}
	if c.record.Stream && !c.ctx.Request.Header.IsHTTP11() {
		return httpVersion("A stream needs HTTP/1.1.")
	}
	return nil
}

// resolve finds the model, checks that the key may use it, and applies the model's own rules to the
// request.
func (c *Call) resolve() error {
	m, ok := c.snap.Lookup(c.wanted())
	if !ok {
		return apierr.ModelNotFound()
	}
	if c.key != nil && !c.key.Allows(m.Config.ID) {
		return apierr.ModelNotAllowed()
	}
	c.model = m
	c.record.Model = m.Config.ID
	if !c.ep.servedBy(m) {
		return apierr.Invalid("model", apierr.CodeUnsupportedParameter, "The model is not served on this endpoint. GET /v1/models lists each model's endpoints.")
	}
	if c.chat == nil {
		return c.resolveNonChat()
	}
	limits := m.ChatRules(c.record.Start, c.ep.lowerEffort, &c.limits)
	if len(c.chat.Prompt.Images) > 0 && limits.InputModalities == nil && m.Route.TextOnly() { // as the catalog says
		c.limits = *limits
		c.limits.InputModalities = textOnly
		limits = &c.limits
	}
	if err := c.chat.Check(limits); err != nil {
		if c.ep.explain != nil {
			return c.ep.explain(c, err)
		}
		return err
	}
	c.pool, c.promptBytes = upstreams.PoolText, c.chat.Prompt.Bytes
	if len(c.chat.Prompt.Images) > 0 || c.chat.Prompt.HasVideo() {
		c.pool = upstreams.PoolVision
	}
	if len(c.chat.Prompt.Images)+len(c.chat.Prompt.Media) > 0 {
		c.promptBytes = 0
	}
	c.record.Pool = c.pool.String()
	return nil
}

var textOnly = []string{"text"}

// wanted is the model's name as the client wrote it.
func (c *Call) wanted() []byte {
	if c.chat == nil {
		return c.payload.wanted()
	}
	return c.chat.Model
}

// resolveNonChat is the end of resolve for a request that is not chat underneath.
func (c *Call) resolveNonChat() error {
	c.pool = c.ep.pool
	c.record.Pool = c.pool.String()
	if err := c.payload.check(c.model.ChatRules(c.record.Start, c.ep.lowerEffort, &c.limits)); err != nil {
		return err
	}
	if c.ep.resolved != nil {
		return c.ep.resolved(c)
	}
	return nil
}

// bodyLimit is an endpoint's limit on the request body, in bytes.
func bodyLimit(f *config.File, ep *endpoint) int64 {
	if ep.form != nil {
		return int64(f.Limits.UploadBody)
	}
	return int64(f.Limits.RequestBody)
}
