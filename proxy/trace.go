package proxy

import (
	"time"

	"github.com/valyala/fasthttp"

	"penstock/config"
	"penstock/upstreams"
)

// traceparent returns the W3C trace context for the engine: of the attempt's span, of the call's
// where there is no attempt, or without tracing what the client sent, when it is well formed;
// otherwise nil.
func (c *Call) traceparent() []byte {
	switch {
	case c.span == nil && c.ctx == nil:
		return c.parent
	case c.span == nil:
		return clientTraceparent(&c.ctx.Request.Header)
	case c.attempt.span == nil:
		return c.span.Traceparent(nil)
	}
	return c.attempt.span.Traceparent(nil)
}

func clientTraceparent(h *fasthttp.RequestHeader) []byte {
	b := h.Peek("Traceparent")
	if len(b) != 55 || b[2] != '-' || b[35] != '-' || b[52] != '-' {
		return nil
	}
	for i, ch := range b {
		if i != 2 && i != 35 && i != 52 && (ch < '0' || ch > '9') && (ch < 'a' || ch > 'f') {
			return nil
		}
	}
	return b
}

// trace ends the attempt's span.
func (a *attempt) trace(o upstreams.Outcome) {
	if a.span == nil {
		return
	}
	var ttft time.Duration
	if a.begun {
		ttft = a.call.record.UpstreamTTFT
	}
	failed := o != upstreams.OutcomeOK && o != upstreams.OutcomeClientGone
	a.span.End(o.String(), failed, a.x.Status(), ttft, time.Now())
	a.span = nil
}

// traced is the endpoint's operation in the words of the GenAI conventions, where they have one.
func (ep *endpoint) traced() string {
	switch {
	case ep == endpointCompletions:
		return "text_completion"
	case ep.operation == config.OpChat, ep.operation == config.OpMessages, ep.operation == config.OpResponses:
		return "chat"
	case ep.operation == config.OpImages, ep.operation == config.OpSpeech:
		return "generate_content"
	}
	return ep.operation // embeddings; transcriptions and rerank have no word yet
}
