package body

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// headerAnnouncedLength is the request header in which DropAnnouncedBody stores the announced
// length.
const headerAnnouncedLength = "X-Penstock-Announced"

// DropAnnouncedBody removes the announced body from a request that will be rejected. The response
// can then be sent immediately, and the connection is closed afterwards. AnnouncedLength still
// returns the original length of the body.
func DropAnnouncedBody(h *fasthttp.RequestHeader) {
	h.Set(headerAnnouncedLength, strconv.Itoa(h.ContentLength()))
	h.SetConnectionClose()
	h.SetContentLength(0)
}

// StripAnnouncedLengthHeader removes headerAnnouncedLength from a request, because a client may
// have sent it.
func StripAnnouncedLengthHeader(h *fasthttp.RequestHeader) { h.Del(headerAnnouncedLength) }

// AnnouncedLength returns the announced length of the body, even after DropAnnouncedBody. It
// returns -1 for a chunked body.
func AnnouncedLength(h *fasthttp.RequestHeader) int64 {
	n := int64(h.ContentLength())
	if n != 0 {
		return n
	}
	if v := h.Peek(headerAnnouncedLength); len(v) > 0 {
		n, _ = strconv.ParseInt(string(v), 10, 64)
	}
	return n
}

// CheckBodyHeaders rejects a Content-Encoding or Content-Type that the endpoint does not accept. An
// endpoint accepts either forms or JSON, and JSON may be compressed.
func CheckBodyHeaders(h *fasthttp.RequestHeader, form bool) *apierr.Error {
	switch c := requestCoding(h); {
	case form && c != codingIdentity:
		return unsupportedCoding("identity", "A form with a Content-Encoding is not accepted: send it unencoded.")
	case c == codingOther:
		return unsupportedCoding("gzip, zstd", "This Content-Encoding of a request body is not accepted: send gzip or zstd alone, or the body unencoded.")
	}
	t := h.ContentType()
	switch {
	case len(t) == 0: // a form without a Content-Type has no boundary, which is reported separately
	case !form && string(t) == jsonType: // the usual case
	case form && !IsMediaType(t, "multipart/form-data"):
		return unsupportedMediaType("The request body must be a form: send it as multipart/form-data.")
	case !form && !IsJSON(t):
		return unsupportedMediaType("The request body must be JSON: send the header Content-Type: application/json.")
	case !form && isNonUTF8Unicode(t):
		return unsupportedMediaType("The request body must be in UTF-8 (RFC 8259, 8.1).")
	}
	return nil
}

func unsupportedMediaType(text string) *apierr.Error {
	return apierr.New(415, apierr.CodeUnsupportedMediaType, "%s", text)
}

// unsupportedCoding returns an error that names the accepted codings (RFC 9110, 12.5.3).
func unsupportedCoding(accepted, text string) *apierr.Error {
	e := unsupportedMediaType(text)
	e.Codings = accepted
	return e
}

// isNonUTF8Unicode reports whether a media type has a Unicode charset other than UTF-8, such as
// utf-16. JSON exchanged between systems must be UTF-8. All other charsets are accepted, because
// old libraries name them by mistake and because these charsets encode ASCII like UTF-8.
func isNonUTF8Unicode(t []byte) bool {
	const utf = "utf-"
	for param := range bytes.SplitSeq(t, []byte{';'}) {
		name, value, _ := bytes.Cut(param, []byte{'='})
		if !httptoken.EqualFold(bytes.TrimSpace(name), "charset") {
			continue
		}
		value = bytes.Trim(bytes.TrimSpace(value), `"`)
		if len(value) > len(utf) && httptoken.EqualFold(value[:len(utf)], utf) && !httptoken.EqualFold(value, "utf-8") {
			return true
		}
	}
	return false
}

// BareType returns a media type without its parameters.
func BareType(t []byte) []byte {
	for i, b := range t {
		if b == ';' || b == ' ' {
			return t[:i]
		}
	}
	return t
}

// IsMediaType reports whether a media type equals name if its parameters are ignored. name must be
// in lower case.
func IsMediaType(t []byte, name string) bool {
	return len(t) >= len(name) && httptoken.EqualFold(t[:len(name)], name) && len(BareType(t[len(name):])) == 0
}

const jsonType = "application/json"

// IsJSON reports whether a media type is application/json or ends in +json. It ignores the
// parameters.
func IsJSON(t []byte) bool {
	if IsMediaType(t, jsonType) {
		return true
	}
	t = BareType(t)
	return len(t) > 5 && httptoken.EqualFold(t[len(t)-5:], "+json")
}
