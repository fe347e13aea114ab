package call

import (
	"github.com/valyala/fasthttp"

	"penstock/proxy/observe"
)

// trace is a call's place in a trace.
type trace struct {
	span   *observe.CallSpan // nil without tracing
	parent []byte            // the client's trace context, where the request's head may be gone
}

// keep keeps the trace context, which may be gone with the request's head by the time that another
// engine is asked.
func (t *trace) keep(cl *client) {
	if t.span == nil {
		t.parent = append([]byte(nil), t.context(cl)...)
	}
}

// context returns the W3C trace context for an engine beside an attempt's own: of the call's span,
// or without tracing what the client sent, when it is well formed; otherwise nil.
func (t *trace) context(cl *client) []byte {
	switch {
	case t.span != nil:
		return t.span.Traceparent(nil)
	case cl.ctx == nil:
		return t.parent
	}
	return clientTraceparent(&cl.ctx.Request.Header)
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
