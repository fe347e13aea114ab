package body

import (
	"bytes"
	"strconv"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
	"penstock/upstreams/http1/httptoken"
)

// headerAnnounced marks a request whose body was cut off before it was read. Its value is the
// announced length.
const headerAnnounced = "X-Penstock-Announced"

// CutOff removes the announced body of a request that is going to be refused. The request is
// answered at once, and the connection ends with that answer. Announced still returns the body's
// length.
func CutOff(h *fasthttp.RequestHeader) {
	h.Set(headerAnnounced, strconv.Itoa(h.ContentLength()))
	h.SetConnectionClose()
	h.SetContentLength(0)
}

// ForgetCutOff removes a client's own header of the name that CutOff uses.
func ForgetCutOff(h *fasthttp.RequestHeader) { h.Del(headerAnnounced) }

// Announced returns the length of the body that the client announced, even after CutOff; -1 for a
// chunked body.
func Announced(h *fasthttp.RequestHeader) int64 {
	n := int64(h.ContentLength())
	if n != 0 {
		return n
	}
	if v := h.Peek(headerAnnounced); len(v) > 0 {
		n, _ = strconv.ParseInt(string(v), 10, 64)
	}
	return n
}

// CheckHead refuses codings and media types that an endpoint does not take. It takes either forms,
// or JSON, which may be compressed.
func CheckHead(h *fasthttp.RequestHeader, form bool) *apierr.Error {
	switch c := codingOf(h); {
	case form && c != identity:
		return unsupportedCoding("identity", "A form with a Content-Encoding is not accepted: send it unencoded.")
	case c == otherCoding:
		return unsupportedCoding("gzip, zstd", "This Content-Encoding of a request body is not accepted: send gzip or zstd alone, or the body unencoded.")
	}
	t := h.ContentType()
	switch {
	case len(t) == 0: // then a form has no boundary either, which is reported as another mistake
	case form && !httptoken.EqualFold(BareType(t), "multipart/form-data"):
		return unsupported("The request body must be a form: send it as multipart/form-data.")
	case !form && !IsJSON(t):
		return unsupported("The request body must be JSON: send the header Content-Type: application/json.")
	case !form && otherUnicode(t):
		return unsupported("The request body must be in UTF-8 (RFC 8259, 8.1).")
	}
	return nil
}

func unsupported(text string) *apierr.Error {
	return apierr.New(415, apierr.CodeUnsupportedMediaType, "%s", text)
}

// unsupportedCoding names the codings that are accepted (RFC 9110, 12.5.3).
func unsupportedCoding(accepted, text string) *apierr.Error {
	e := unsupported(text)
	e.Codings = accepted
	return e
}

// otherUnicode reports whether a media type names a form of Unicode as its charset that JSON must
// not have between systems. Other charsets agree with UTF-8 in ASCII, and old libraries name them
// without meaning it.
func otherUnicode(t []byte) bool {
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

// IsJSON reports whether a media type without its parameters is application/json or ends in +json.
func IsJSON(t []byte) bool {
	t = BareType(t)
	return httptoken.EqualFold(t, "application/json") || len(t) > 5 && httptoken.EqualFold(t[len(t)-5:], "+json")
}
