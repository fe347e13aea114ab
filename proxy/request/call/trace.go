package call

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"penstock/proxy/telemetry/observe"
)

type traceContext struct {
	span  *observe.CallSpan   // nil if tracing is off
	saved *clientTraceContext // nil if nothing was saved; see saveClientContext
}

type clientTraceContext struct{ traceparent, tracestate []byte }

// saveClientContext saves the client's trace context, because the request headers may be released
// before the call moves to another engine.
func (t *traceContext) saveClientContext(cl *callClient) {
	saved := clientTraceContext{tracestate: t.engineTracestate(cl)}
	if t.span == nil {
		saved.traceparent = t.engineTraceparent(cl)
	}
	if saved.traceparent != nil || saved.tracestate != nil {
		t.saved = &saved
	}
}

// engineTraceparent returns the W3C traceparent for an engine. If tracing is on, it is the
// traceparent of the call's span. If tracing is off, it is the client's traceparent, or nil if the
// client's traceparent is malformed. The result is a copy: an exchange may send its request again
// after fasthttp has reused the request headers for another client.
func (t *traceContext) engineTraceparent(cl *callClient) []byte {
	switch {
	case t.span != nil:
		return t.span.AppendTraceparent(nil)
	case cl.ctx != nil:
		return bytes.Clone(clientTraceparent(&cl.ctx.Request.Header))
	case t.saved != nil:
		return t.saved.traceparent
	}
	return nil
}

// engineTracestate returns the client's tracestate for an engine, or nil if the traceparent is not
// valid. Spans do not contain the tracestate, because the trace collector would then store text
// that the client controls. The result is a copy, like that of engineTraceparent.
func (t *traceContext) engineTracestate(cl *callClient) []byte {
	if cl.ctx == nil {
		if t.saved == nil {
			return nil
		}
		return t.saved.tracestate
	}
	h := &cl.ctx.Request.Header
	if clientTraceparent(h) == nil {
		return nil
	}
	switch lines := h.PeekAll("Tracestate"); len(lines) {
	case 0:
		return nil
	case 1:
		return truncateTracestate(bytes.Clone(lines[0]))
	default: // multiple headers form a single list
		return truncateTracestate(bytes.Join(lines, []byte(",")))
	}
}

// maxTracestate is the maximum size of a tracestate that is propagated. Trace Context, 3.3.1.5
// requires at least 512 bytes.
const maxTracestate = 512

// truncateTracestate returns the leading list members of a tracestate that fit into maxTracestate.
// It returns nil if b contains anything other than visible characters and spaces.
func truncateTracestate(b []byte) []byte {
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
	return parseTraceparent(h.PeekCanonical(headerTraceparent))
}

// parseTraceparent returns the W3C traceparent for engines. If b is malformed, it returns nil.
// Later versions are parsed as if they were version 00. Version ff is invalid (Trace Context,
// 3.2.2.1 and 4.3).
func parseTraceparent(b []byte) []byte {
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
