package call

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"penstock/proxy/telemetry/observe"
)

// trace holds a call's trace context.
type trace struct {
	span   *observe.CallSpan // nil without tracing
	parent []byte            // the client's trace context, kept because the request's head may be released earlier
	vendor []byte            // the client's tracestate, likewise
}

// keep copies the trace context, because the request's head may have been released when the call
// goes to another engine.
func (t *trace) keep(cl *client) {
	if t.span == nil {
		t.parent = append([]byte(nil), t.context(cl)...)
	}
	t.vendor = append([]byte(nil), t.state(cl)...)
}

// context returns the W3C trace context for an engine if the attempt has none of its own: the
// context of the call's span or, without tracing, the client's. It returns nil if the client's
// context is malformed.
func (t *trace) context(cl *client) []byte {
	switch {
	case t.span != nil:
		return t.span.Traceparent(nil)
	case cl.ctx == nil:
		return t.parent
	}
	return clientTraceparent(&cl.ctx.Request.Header)
}

// state returns the client's tracestate for an engine, or nil without a valid trace context. Spans
// do not carry the tracestate, because it is the client's text and a trace collector would store
// it.
func (t *trace) state(cl *client) []byte {
	if cl.ctx == nil {
		return t.vendor
	}
	h := &cl.ctx.Request.Header
	if clientTraceparent(h) == nil {
		return nil
	}
	switch lines := h.PeekAll("Tracestate"); len(lines) {
	case 0:
		return nil
	case 1:
		return tracestateOf(lines[0])
	default: // one list on several lines
		return tracestateOf(bytes.Join(lines, []byte(",")))
	}
}

// maxTracestate is the maximum number of bytes of a tracestate that are passed on. Trace Context
// (3.3.1.5) requires vendors to pass on at least this many.
const maxTracestate = 512

// tracestateOf returns the part of a tracestate that engines get: whole members from the left, up
// to maxTracestate bytes. It returns nil if b contains anything but visible characters and blanks.
func tracestateOf(b []byte) []byte {
	for _, ch := range b {
		if ch < ' ' || ch > '~' {
			return nil
		}
	}
	if len(b) > maxTracestate {
		return b[:max(0, bytes.LastIndexByte(b[:maxTracestate+1], ','))]
	}
	return b
}

var headerTraceparent = []byte("Traceparent")

func clientTraceparent(h *fasthttp.RequestHeader) []byte {
	return traceparentOf(h.PeekCanonical(headerTraceparent))
}

// traceparentOf returns the W3C trace context that engines get, or nil if b is malformed. A newer
// version starts with the fields of version 00 and is read as version 00. Version ff is invalid
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
