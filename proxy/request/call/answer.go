package call

import (
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"penstock/proxy/access/limit"
	"penstock/proxy/front/listen"
	"penstock/proxy/request/attempt"
	"penstock/proxy/request/body"
	"penstock/proxy/request/endpoint"
	"penstock/proxy/request/failure"
	"penstock/proxy/telemetry/observe"
	"penstock/translate/apierr"
	"penstock/upstreams"
)

// setHeaders sets the headers common to all answers. After a panic, the headers may already be set.
// The headers of an error are set one by one, because the WebSocket handler reads them.
func (c *Call) setHeaders() {
	h := &c.client.ctx.Response.Header
	if !c.client.hasCommonHeaders {
		c.client.hasCommonHeaders = true
		lines := attempt.NewBuffer()
		if *lines = c.appendHeaderLines(*lines); c.record.Status == fasthttp.StatusOK {
			endpoint.SetHeaderLines(h, *lines)
		} else {
			endpoint.SetHeadersOneByOne(h, *lines)
		}
		attempt.RecycleBuffer(lines)
	}
	if len(c.record.Dropped) > 0 {
		h.Set(endpoint.HeaderDropped, strings.Join(c.record.Dropped, ", "))
	}
	if c.request != nil && c.ep.Form {
		if c.request.IsFullyRead() {
			c.client.closeIfRequestTrailers()
		} else {
			c.client.closeAfterResponse()
		}
	}
	if m := c.config.requestedModel(c.record.Asked); m != nil {
		if m.Deprecation != nil {
			h.SetCanonical(headerDeprecation, m.Deprecation)
		}
		if m.Sunset != nil {
			h.SetCanonical(headerSunset, m.Sunset)
		}
	}
	if c.config.snapshot.Config.Log.DebugHeaders {
		setDebugHeaders(h, &c.record, c.attemptCount())
	}
}

func setDebugHeaders(h *fasthttp.ResponseHeader, r *observe.Record, attempts int) {
	h.Set("X-Penstock-Model", r.Model)
	h.Set("X-Penstock-Pool", r.Pool)
	h.Set("X-Penstock-Upstream", r.Upstream)
	if r.Code != "" {
		h.Set("X-Penstock-Code", r.Code)
	}
	h.Set("X-Penstock-Attempts", strconv.Itoa(attempts))
	if r.Choice != nil {
		h.Set("X-Penstock-Cached", strconv.Itoa(r.Choice.Expected))
	}
	h.Set("X-Penstock-Queue-Ms", strconv.FormatInt(r.Queue.Milliseconds(), 10))
}

// appendHeaderLines appends the header lines common to all answers, without the line break after
// the last line.
func (c *Call) appendHeaderLines(dst []byte) []byte {
	dst = endpoint.AppendCommonResponseLines(dst, c.requestID(), c.record.ProxyRequestID)
	if l := c.limits.keyLimits; l != nil && l.HasRateLimit() {
		var settled *limit.Reservation
		u := &c.tokens.usage
		if !c.record.Committed || u.Known {
			settled = &c.limits.reservation
		}
		dst = appendRateLimits(dst, l, settled, int64(u.Prompt+u.Completion), c.ep.Dialect.AnthropicRates, c.times.endTimeOrNow())
	}
	return dst
}

var headerDeprecation, headerSunset = []byte("Deprecation"), []byte("Sunset")

// answerError ends the attempt and answers with an error.
func (c *Call) answerError(f *failure.Failure) {
	c.endAttempt(f.Outcome)
	if f.Cause == upstreams.CauseNoEndpoint && c.ep.IsEngineSpecific() { // no other engine serves the endpoint
		f.API, f.Result = endpoint.NoEngineError(), observe.OutcomeClientError
	}
	if m := c.config.model; m != nil && c.search.pool == upstreams.PoolVision {
		f.AddVisionPoolLoad(m.Route.PoolCapacity(upstreams.PoolVision, time.Now()))
	}
	recordCallFailure(&c.record, f)
	e := c.ep.Dialect.ConvertError(f.API)
	switch {
	case f.Result != observe.OutcomeClientGone:
		c.record.Status = e.Status
		c.writeError(e)
	case f.API.Status != failure.StatusClientGone:
		c.writeError(e) // sent because the client may have closed only its sending side
	case c.request != nil && !c.request.IsFullyRead():
		c.writeError(body.TruncatedError()) // sent because the client may have closed only its sending side
	default:
		c.client.closeWithoutResponse()
	}
	logUpstreamFailure(c.services.Log, c.requestID(), &c.record, f)
}

func (c *Call) writeError(e *apierr.Error) {
	c.client.setWriteTimeout(c.config.writeTimeout())
	ctx := c.client.ctx
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	ctx.Response.Header.SetContentType(jsonType)
	c.setHeaders()
	endpoint.SetErrorHeaders(&ctx.Response.Header, e)
	ctx.Response.SetBody(c.ep.Dialect.AppendError(nil, e, string(c.requestID())))
	c.record.BytesOut = int64(len(ctx.Response.Body()))
}

const jsonType = "application/json"

// answerBuffered responds with body, which is stored in buf. buf is recycled once the response has
// been written. The body fits into a socket buffer, so the call does not wait until the client has
// received it.
func (c *Call) answerBuffered(buf *[]byte, body []byte, mediaType string) {
	c.record.Status = fasthttp.StatusOK
	c.record.Outcome = observe.OutcomeOK
	c.record.BytesOut = int64(len(body))
	ctx := c.client.ctx
	ctx.Response.Header.SetContentType(mediaType)
	c.setHeaders()
	c.client.setWriteTimeout(c.config.writeTimeout())
	if listen.RecycleAfterResponse(ctx.Conn(), buf, attempt.RecycleBuffer) {
		ctx.Response.SetBodyRaw(body)
		return
	}
	ctx.Response.SetBody(body)
	attempt.RecycleBuffer(buf)
}

// answerLargeBody responds with a body that is too large for a socket buffer. A relay writes the body,
// which starts at offset chunkPrefixLen in out. The engine is already free. The call ends once the
// client has received the body or has disconnected. Until then, the call occupies the key's
// concurrency slot, and the body's memory stays reserved.
func (c *Call) answerLargeBody(out *[]byte, mediaType string) {
	c.releaseRequest()
	c.times.endAt = time.Time{} // the call has not ended yet
	c.setPhase(&phaseStreaming)
	c.commitHeaders(mediaType)
	c.relay = &relay{call: c, form: answerKindComplete, out: out, isDone: true}
	c.client.ctx.Response.SetBodyStream(c.relay, len(*out)-chunkPrefixLen)
}

// commitHeaders marks the answer as committed and sets its headers.
func (c *Call) commitHeaders(mediaType string) {
	c.record.Status = fasthttp.StatusOK
	c.record.Committed = true
	c.client.ctx.Response.Header.SetContentType(mediaType)
	c.setHeaders()
}
