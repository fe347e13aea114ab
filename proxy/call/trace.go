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

func clientTraceparent(h *fasthttp.RequestHeader) []byte { return traceparentOf(h.Peek("Traceparent")) }

// traceparentOf returns a W3C trace context as an engine may be sent it, and nil for one that is
// malformed. A newer version is read as version 00, whose members it begins with; ff is none
// (Trace Context, 3.2.2.1 and 4.3).
func traceparentOf(b []byte) []byte {
	const length = len("00-0123456789abcdef0123456789abcdef-0123456789abcdef-00")
	if len(b) < length || b[2] != '-' || b[35] != '-' || b[52] != '-' || string(b[:2]) == "ff" {
		return nil
	}
	newer := string(b[:2]) != "00"
	if len(b) > length && (!newer || b[length] != '-') {
		return nil
	}
	for i, ch := range b[:length] {
		if i != 2 && i != 35 && i != 52 && (ch < '0' || ch > '9') && (ch < 'a' || ch > 'f') {
			return nil
		}
	}
	if newer {
		return append([]byte("00"), b[2:length]...)
	}
	return b
}
