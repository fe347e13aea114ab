package endpoint

import (
	"bytes"
	"math/rand/v2"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/proxy/request/body"
	"penstock/translate/apierr"
)

// AppendNewRequestID appends a new request id: "req_" followed by 26 base-32 characters that encode
// 128 random bits. Ids must be unique but not secret, so a generator seeded by the operating system
// is good enough.
func AppendNewRequestID(dst []byte) []byte {
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	var digits [26]byte
	a, b := rand.Uint64(), rand.Uint64()
	for i := range 13 {
		digits[i], digits[i+13] = alphabet[a&31], alphabet[b&31]
		a, b = a>>5, b>>5
	}
	return append(append(dst, requestIDPrefix...), digits[:]...)
}

const requestIDPrefix = "req_"

var overloadedMessage = []byte("Overloaded")

// HeaderDropped is the response header that names the parts of a request that were dropped.
const HeaderDropped = "X-Penstock-Dropped"

// HeaderCallRetained is the response header for calls that are copied to an operator's sink (hooks with
// "after").
const HeaderCallRetained = "X-Penstock-Retained"

// DroppedToolCalls is the value of HeaderDropped if tool calls were dropped from the answer. If the
// request forbids parallel tool calls, all calls after the first are dropped. A stream cannot
// report dropped calls, because its headers have already been sent.
const DroppedToolCalls = "answer:tool_calls"

// SetCommonHeaders sets the headers common to all responses.
func SetCommonHeaders(h *fasthttp.ResponseHeader, id []byte) {
	SetHeadersOneByOne(h, AppendCommonResponseLines(nil, id, ""))
}

// AppendCommonResponseLines appends the lines of the headers common to all responses, without the line
// break after the last line. The request id is sent in two headers, because some SDKs read the
// first and others the second. If proxyID is not empty, it is the value of the second header.
func AppendCommonResponseLines(dst, id []byte, proxyID string) []byte {
	dst = append(append(dst, "Request-Id: "...), id...)
	if dst = append(dst, "\r\nX-Request-Id: "...); proxyID != "" {
		dst = append(dst, proxyID...)
	} else {
		dst = append(dst, id...)
	}
	return append(dst, "\r\nCache-Control: no-store"...)
}

// SetHeaderLines sets all headers in lines in one step, which takes a fifth of the time needed to
// set them one by one. fasthttp writes a canonical name unchanged, so SetHeaderLines passes
// everything before the last value as one name. fasthttp's other methods do not find these headers.
// The names must be canonical. The values must not contain CR or LF, and the last value must not
// contain a space.
func SetHeaderLines(h *fasthttp.ResponseHeader, lines []byte) {
	blank := bytes.LastIndexByte(lines, ' ')
	h.SetCanonical(lines[:blank-1], lines[blank+1:])
}

// SetHeadersOneByOne sets the headers in lines one by one.
func SetHeadersOneByOne(h *fasthttp.ResponseHeader, lines []byte) {
	for line := range bytes.SplitSeq(lines, []byte("\r\n")) {
		name, value, _ := bytes.Cut(line, []byte(": "))
		h.SetCanonical(name, value)
	}
}

// WriteError writes e as the response to ctx. e must come from ConvertError.
func (d *Dialect) WriteError(ctx *fasthttp.RequestCtx, e *apierr.Error, requestID []byte) {
	ctx.Response.ResetBody()
	ctx.SetStatusCode(e.Status)
	h := &ctx.Response.Header
	h.SetContentType("application/json")
	SetCommonHeaders(h, requestID)
	SetErrorHeaders(h, e)
	ctx.Response.SetBody(d.appendError(nil, e, string(requestID)))
}

// SetErrorHeaders sets the headers for e.
func SetErrorHeaders(h *fasthttp.ResponseHeader, e *apierr.Error) {
	if e.Status == apierr.StatusOverloaded {
		// 529 is not a registered status, so fasthttp has no text for it.
		h.SetStatusMessage(overloadedMessage)
	}
	if e.Status == fasthttp.StatusUnauthorized {
		h.Set("WWW-Authenticate", "Bearer")
	}
	if e.Codings != "" {
		h.Set("Accept-Encoding", e.Codings)
	}
	if n := e.RetryAfterSeconds(); n > 0 {
		h.Set("Retry-After", strconv.Itoa(n))
	}
	if e.Quota != nil && !e.Quota.OnlyReserved { // otherwise, SDKs would retry within seconds
		h.Set("X-Should-Retry", "false")
	}
}

func isEventStream(reply ReplyHead) bool {
	return body.IsMediaType(reply.Header("Content-Type"), eventStreamType)
}

func isJSONReply(reply ReplyHead) bool { return body.IsJSON(reply.Header("Content-Type")) }
