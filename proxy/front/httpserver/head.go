package httpserver

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/proxy/front/listen"
	"penstock/proxy/request/body"
	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// CheckRequest rejects a request whose framing or headers two parsers could interpret differently.
func CheckRequest(ctx *fasthttp.RequestCtx) *apierr.Error {
	if wrong := listen.FramingError(ctx.Conn()); wrong != nil {
		return FramingError(wrong)
	}
	return checkHead(&ctx.Request.Header, listen.HasPlainHeaders(ctx.Conn()))
}

// CheckHead rejects request headers that fasthttp accepts but that another parser on the path may
// interpret differently. Each such difference would allow request smuggling. CheckHead checks
// nothing else.
func CheckHead(h *fasthttp.RequestHeader) *apierr.Error { return checkHead(h, false) }

// checkHead implements CheckHead. plain is the result of listen.HasPlainHeaders.
func checkHead(h *fasthttp.RequestHeader, plain bool) *apierr.Error {
	if p := h.Protocol(); !bytes.Equal(p, protoHTTP11) && !bytes.Equal(p, protoHTTP10) {
		return apierr.UnsupportedHTTPVersion("Only HTTP/1.1 and HTTP/1.0 are spoken here.")
	}
	uri := h.RequestURI()
	if len(uri) == 0 || uri[0] != '/' && !isOptionsStar(h) {
		return apierr.BadRequest("The request target must be a path that begins with a slash, or where the API is served an http or https URL without a user.")
	}
	if bytes.IndexByte(uri, '#') >= 0 { // fasthttp ends the path here; other parsers do not
		return apierr.BadRequest("The request target has a fragment.")
	}
	// In plain headers, fasthttp has already rejected a second Host header and, for HTTP/1.1, a
	// missing one.
	hosts, reason := 1, ""
	if !plain {
		hosts, reason = scanHead(h.RawHeaders())
	}
	switch {
	case reason == reasonBadExpect:
		return apierr.New(417, apierr.CodeBadRequest, reasonBadExpect)
	case reason != "":
		return apierr.BadRequest(reason)
	case hosts > 1:
		return apierr.BadRequest("The request has more than one Host header.")
	case hosts == 0 && h.IsHTTP11():
		return apierr.BadRequest("The request has no Host header.")
	case !validHost(h.Host()):
		return apierr.BadRequest("The Host header is malformed.")
	}
	return nil
}

// isOptionsStar reports whether a request is OPTIONS *, which applies to the whole server (RFC
// 9110, 9.3.7).
func isOptionsStar(h *fasthttp.RequestHeader) bool {
	return string(h.RequestURI()) == "*" && h.IsOptions()
}

// AnswerOptionsStar responds to OPTIONS * with the methods in allow. It returns false for any other
// request. The request must already have passed CheckRequest.
func AnswerOptionsStar(ctx *fasthttp.RequestCtx, allow string) bool {
	if !isOptionsStar(&ctx.Request.Header) {
		return false
	}
	ctx.Response.Header.Set("Allow", allow)
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	return true
}

// ToOriginForm rewrites a request target in absolute form to origin form. A server must accept
// absolute form (RFC 9112, 3.2.2), but all checks and routes expect origin form. The authority in
// the target replaces Host, but CheckHead still requires one Host header. ToOriginForm does not
// change a target that CheckHead rejects: a target with a scheme other than http or https, with
// user information, or without a valid host. Nor does it change a target if the Host header is
// malformed.
func ToOriginForm(h *fasthttp.RequestHeader) {
	uri := h.RequestURI()
	if len(uri) == 0 || uri[0] == '/' || !validHost(h.Host()) {
		return
	}
	authority, target, ok := splitAbsolute(uri)
	if !ok {
		return
	}
	h.SetHostBytes(authority)
	h.SetRequestURI(target) // SetRequestURI overwrites the bytes of uri, so target must be a copy
}

func splitAbsolute(uri []byte) (authority []byte, target string, ok bool) {
	scheme, rest, found := bytes.Cut(uri, []byte("://"))
	if !found || !httptoken.EqualFold(scheme, "http") && !httptoken.EqualFold(scheme, "https") {
		return nil, "", false
	}
	end := bytes.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority = rest[:end]
	if len(authority) == 0 || authority[0] == ':' || !validHost(authority) { // validHost rejects @
		return nil, "", false
	}
	if target = string(rest[end:]); target == "" || target[0] != '/' {
		target = "/" + target
	}
	return authority, target, true
}

var (
	protoHTTP11 = []byte("HTTP/1.1")
	protoHTTP10 = []byte("HTTP/1.0")
)

// FramingError converts an error from package listen into an error for the client.
func FramingError(err error) *apierr.Error {
	switch {
	case errors.Is(err, listen.ErrFraming):
		return body.FramingError(err)
	case errors.Is(err, listen.ErrEmptyLines):
		return apierr.BadRequest("Too many empty lines precede the request line.")
	case errors.Is(err, listen.ErrNotHTTP):
		return apierr.BadRequest("What came does not begin like HTTP/1.1: this port was sent another protocol, such as TLS or the PROXY protocol's version 2.")
	case errors.Is(err, listen.ErrUnexpectedProxyHeader):
		return apierr.BadRequest("What came begins with a line of the PROXY protocol, which is not read here: turn it off at the balancer.")
	case errors.Is(err, listen.ErrHTTP2):
		return apierr.UnsupportedHTTPVersion("What came is HTTP/2, and only HTTP/1.1 and HTTP/1.0 are spoken here: set the client or the balancer to HTTP/1.1.")
	}
	return apierr.BadRequest("A line of the request head does not end in CR LF.")
}

// RequestParseError returns the error for a request that failed with err before its handler ran. It
// also returns the part of the request path that is known.
func RequestParseError(ctx *fasthttp.RequestCtx, err error) (refusal *apierr.Error, path []byte) {
	var small *fasthttp.ErrSmallBuffer
	wrong := listen.FramingError(ctx.Conn())
	path, whole := listen.RequestPath(ctx.Conn())
	switch {
	case wrong != nil:
		return FramingError(wrong), path
	case whole && (body.IsTimeout(err) || listen.IsRequestTruncated(ctx.Conn())):
		return body.IncompleteError(ctx.Conn(), err), path
	case errors.As(err, &small):
		return apierr.New(fasthttp.StatusRequestHeaderFieldsTooLarge, apierr.CodeRequestTooLarge,
			"The request head is larger than the limit."), path
	case body.IsTimeout(err):
		return apierr.New(fasthttp.StatusRequestTimeout, apierr.CodeRequestTimeout, "The request came too slowly."), path
	case listen.IsRequestTruncated(ctx.Conn()):
		return apierr.BadRequest("The connection ended before the request head was whole."), path
	}
	return apierr.BadRequest(parseErrorMessage(err)), path
}

// parseErrorMessage converts an error from fasthttp's parser into a message for the client. It
// compares only the beginning of the error text, because the remaining text may contain bytes from
// the client.
func parseErrorMessage(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		text := strings.TrimPrefix(err.Error(), "fasthttp: ")
		for _, r := range parseErrorMessages {
			if strings.HasPrefix(text, r.begins) {
				return r.says
			}
		}
	}
	return "The request head could not be parsed as HTTP/1.1."
}

var parseErrorMessages = []struct{ begins, says string }{
	{"cannot find http request method", "The request line has no method, or no blank behind it."},
	{"unsupported http request method", "The method of the request line has a character that is not allowed."},
	{"cannot find whitespace in the first line", "The request line does not have three parts: a method, a target and HTTP/1.1."},
	{"extra whitespace in request line", "The request line has more blanks than the two between its parts."},
	{"unsupported http version", "The request line does not end in HTTP/1.1 or HTTP/1.0."},
	{"requesturi cannot be empty", "The request line has no target, or two blanks before it."},
	{"invalid request uri", "The request target has a control character, or is neither a path nor a URL."},
	{"invalid header key", "The name of a header is empty, has a character that is not allowed, or has a blank before its colon."},
	{"malformed mime header", "A line of the request head is no header: it has no colon, no name before it, or a character in the name that is not allowed."},
	{"invalid headers, headers cannot start", "The first header begins with a blank."},
	{"invalid header value", "The value of a header has a control character."},
	{"duplicate content-length", "The request has more than one Content-Length header."},
	{"cannot parse content-length", "The Content-Length header is not one whole number of bytes."},
	{"unsupported transfer-encoding", "The Transfer-Encoding header is not chunked, or the request is HTTP/1.0, which has none."},
	{"too many transfer-encoding", "The request has more than one Transfer-Encoding header."},
	{"request content-length and transfer-encoding conflict", "The head has a Content-Length and a Transfer-Encoding."},
	{"too many host", "The request has more than one Host header."},
	{"invalid character", "The Host header is malformed."},
	{"invalid URL escape", "The Host header is malformed."},
	{"invalid host", "The Host header is malformed."},
	{"invalid port", "The Host header is malformed."},
	{"missing ']' in host", "The Host header is malformed."},
	{"missing required host", "The request has no Host header, or an empty one."},
	{"contain forbidden trailer", "The Trailer header names a header that may not be a trailer, such as Content-Length."},
}

// reasonBadExpect is the reason for rejecting an Expect header that the edge cannot satisfy (RFC
// 9110, 10.1.1). fasthttp would ignore the header.
const reasonBadExpect = "The Expect header asks for something else than 100-continue."

// scanHead scans the raw header lines once. It returns the number of Host headers, or the reason
// for rejecting the headers.
func scanHead(raw []byte) (hosts int, reason string) {
	sized, chunked := false, false
	wrong := func(n int, what string) (int, string) {
		return 0, fmt.Sprintf("Line %d of the request head %s.", n, what)
	}
	for n := 2; len(raw) > 0; n++ { // line 1 is the request line
		line := raw
		if i := bytes.IndexByte(raw, '\n'); i >= 0 {
			line, raw = raw[:i], raw[i+1:]
		} else {
			raw = nil
		}
		ended := len(line) > 0 && line[len(line)-1] == '\r'
		if ended {
			line = line[:len(line)-1]
		}
		if len(line) == 0 {
			continue
		}
		colon := httptoken.TokenLength(line)
		switch {
		case !ended:
			return wrong(n, "does not end in CR LF")
		case colon > 0 && colon < len(line) && line[colon] == ':':
		case line[0] == ' ' || line[0] == '\t':
			return wrong(n, "begins with a blank: a header must not go on in a second line")
		case bytes.IndexByte(line, ':') <= 0:
			return wrong(n, "is no header: it has no name before a colon")
		default:
			return wrong(n, "has a character in the header's name that is not allowed there")
		}
		if httptoken.HasControl(line[colon+1:]) {
			return wrong(n, "has a control character in the header's value")
		}
		switch {
		case colon == len("host") && httptoken.EqualFold(line[:colon], "host"):
			hosts++
		case colon == len("expect") && httptoken.EqualFold(line[:colon], "expect") &&
			!httptoken.EqualFold(bytes.TrimSpace(line[colon+1:]), "100-continue"):
			return 0, reasonBadExpect
		case colon == len("transfer-encoding") && httptoken.EqualFold(line[:colon], "transfer-encoding"):
			if !httptoken.EqualFold(bytes.TrimSpace(line[colon+1:]), "chunked") {
				// fasthttp would treat "identity" as no body.
				return 0, "The Transfer-Encoding header is not chunked."
			}
			chunked = true
		case colon == len("content-length") && httptoken.EqualFold(line[:colon], "content-length"):
			sized = true
		}
	}
	if sized && chunked { // the edge might use one header, and another parser the other header
		return 0, "The head has a Content-Length and a Transfer-Encoding."
	}
	return hosts, ""
}

// validHost reports whether b contains only characters of a Host header, which is a name or an
// address with an optional port. The edge does not use the value, but any other character suggests
// an attack on a server behind the edge.
func validHost(b []byte) bool {
	for _, c := range b {
		if !hostBytes[c] {
			return false
		}
	}
	return true
}

var hostBytes = func() (t [256]bool) {
	for c := range 256 {
		t[c] = c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || bytes.IndexByte([]byte(".-_:[]%~"), byte(c)) >= 0
	}
	return t
}()
