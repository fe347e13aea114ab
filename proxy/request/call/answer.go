package call

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
	"go.uber.org/zap"

	"penstock/proxy/access/limit"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/running/snapshot"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

type answer struct{ call *Call }

// setHeaders sets the headers common to all answers. After a panic, the headers may already be set.
// The headers of an error are set one by one, because the WebSocket handler reads them.
func (a answer) setHeaders() {
	c := a.call
	h := &c.client.ctx.Response.Header
	if lines := &c.client.lines; len(*lines) == 0 {
		if *lines = a.appendLines(*lines); c.record.Status == fasthttp.StatusOK {
			endpoint.SetLines(h, *lines)
		} else {
			endpoint.SetEach(h, *lines)
		}
	}
	if len(c.record.Dropped) > 0 {
		h.Set(endpoint.HeaderDropped, strings.Join(c.record.Dropped, ", "))
	}
	if c.request != nil && c.ep.Form {
		if c.request.Ended() {
			c.client.endChunked()
		} else {
			c.client.closeAfterResponse()
		}
	}
	if m := a.asked(); m != nil {
		if m.Deprecation != nil {
			h.SetCanonical(headerDeprecation, m.Deprecation)
		}
		if m.Sunset != nil {
			h.SetCanonical(headerSunset, m.Sunset)
		}
	}
	if c.config.snapshot.Config.Log.DebugHeaders {
		h.Set("X-Penstock-Model", c.record.Model)
		h.Set("X-Penstock-Pool", c.record.Pool)
		h.Set("X-Penstock-Upstream", c.record.Upstream)
		if c.record.Code != "" {
			h.Set("X-Penstock-Code", c.record.Code)
		}
		h.Set("X-Penstock-Attempts", strconv.Itoa(c.attempts()))
		if c.record.Choice != nil {
			h.Set("X-Penstock-Cached", strconv.Itoa(c.record.Choice.Expected))
		}
		h.Set("X-Penstock-Queue-Ms", strconv.FormatInt(c.record.Queue.Milliseconds(), 10))
	}
}

// appendLines appends the header lines common to all answers, without the line break after the last
// line.
func (a answer) appendLines(dst []byte) []byte {
	c := a.call
	dst = endpoint.AppendCommonLines(dst, c.client.requestID, c.record.ProxyRequestID)
	if l := c.rates.limits; l != nil && l.Limited() {
		var settled *limit.Reservation
		u := &c.tokens.usage
		if !c.record.Committed || u.Known {
			settled = &c.rates.held
		}
		dst = appendRates(dst, l, settled, int64(u.Prompt+u.Completion), c.ep.Dialect.AnthropicRates, c.times.ended())
	}
	return dst
}

var headerDeprecation, headerSunset = []byte("Deprecation"), []byte("Sunset")

// asked returns the model that the client requested, even if a fallback model answers. It returns
// nil if the model is unknown.
func (a answer) asked() *snapshot.Model {
	c := &a.call.config
	if a.call.record.Asked != "" {
		if m, ok := c.snapshot.ModelByID(a.call.record.Asked); ok {
			return m
		}
	}
	return c.model
}

func (a answer) error(f *failure.Failure) {
	c := a.call
	c.endAttempt(f.Outcome)
	if f.Cause == upstreams.CauseNoEndpoint && c.ep.AtSomeEngines() { // no other engine serves the endpoint
		f.API, f.Result = endpoint.AtNoEngine(), observe.ClientError
	}
	c.fail(f)
	e := c.ep.Dialect.ErrorOf(f.API)
	switch {
	case f.Result != observe.ClientGone:
		c.record.Status = e.Status
		a.writeError(e)
	case f.API.Status != failure.StatusClientGone:
		a.writeError(e) // sent because the client may have closed only its sending side
	case c.request != nil && !c.request.Ended():
		a.writeError(body.Cut()) // sent because the client may have closed only its sending side
	default:
		c.client.hangUp()
	}
	a.warn(f)
}

func (a answer) writeError(e *apierr.Error) {
	c := a.call
	c.client.extendWrite(c.config.writeTimeout())
	ctx := c.client.ctx
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	ctx.Response.Header.SetContentType(jsonType)
	a.setHeaders()
	endpoint.ErrorHeaders(&ctx.Response.Header, e)
	ctx.Response.SetBody(c.ep.Dialect.AppendError(nil, e, string(c.client.requestID)))
	c.record.BytesOut = int64(len(ctx.Response.Body()))
}

func (a answer) warn(f *failure.Failure) {
	c := a.call
	if f.Result == observe.UpstreamFail && f.API.Code != apierr.CodeHookUnavailable {
		c.shared.Log.Warn("upstream failed",
			zap.ByteString("request_id", c.client.requestID), zap.String("upstream", c.record.Upstream),
			zap.String("code", c.record.Code),
			zap.String("cause", c.record.Cause), zap.Int("engine_status", c.record.EngineStatus))
	}
}

const jsonType = "application/json"

// whole responds with body, which is stored in buf. It copies the body and recycles buf. The body
// fits into a socket buffer, so the call does not wait for its delivery.
func (a answer) whole(buf *[]byte, body []byte, mediaType string) {
	c := a.call
	c.record.Status = fasthttp.StatusOK
	c.record.Outcome = observe.OK
	c.record.BytesOut = int64(len(body))
	response := &c.client.ctx.Response
	response.Header.SetContentType(mediaType)
	a.setHeaders()
	c.client.extendWrite(c.config.writeTimeout())
	response.SetBody(body)
	attempt.Recycle(buf)
}

// deliver responds with a body that is too large for a socket buffer. A relay writes the body. The
// body starts at offset chunkRoom in out. The engine is already free. The call ends once the client
// has received the body or has disconnected. Until then, the call keeps the key's concurrency
// slot and the body's memory.
func (a answer) deliver(out *[]byte, mediaType string) {
	c := a.call
	c.releaseRequest()
	c.times.endAt = time.Time{} // the call has not ended yet
	c.setPhase(&phaseStreaming)
	a.commit(mediaType)
	c.relay = &relay{call: c, form: formWhole, out: out, done: true}
	c.client.ctx.Response.SetBodyStream(c.relay, len(*out)-chunkRoom)
}

func (a answer) commit(mediaType string) {
	c := a.call
	c.record.Status = fasthttp.StatusOK
	c.record.Committed = true
	c.client.ctx.Response.Header.SetContentType(mediaType)
	a.setHeaders()
}
