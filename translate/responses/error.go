package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/jsonx"
)

// The codes that an error within a response or a stream may have. The openai SDK's union of them is closed; it has more,
// all about what does not happen here.
const (
	codeServerError  = "server_error"
	codeRateLimit    = "rate_limit_exceeded"
	codeInvalidInput = "invalid_prompt"
)

// streamCode returns the code for an error within a stream.
func streamCode(e *apierr.Error) string {
	switch e.Type {
	case apierr.TypeRateLimit:
		return codeRateLimit
	case apierr.TypeInvalidRequest, apierr.TypeTooLarge:
		return codeInvalidInput
	}
	return codeServerError
}

// MapError puts an error that the edge found out without this package, an engine's refusal, in the words of Responses.
func MapError(e *apierr.Error) *apierr.Error {
	if e.Param != "messages" {
		return e
	}
	mapped := *e
	mapped.Param = "input"
	return &mapped
}

// appendError appends the members of an error in both forms that clients know: flat, as OpenAI's SDKs read it, and in an
// object, without which the openai SDK does not throw.
func appendError(dst []byte, e *apierr.Error) []byte {
	code := streamCode(e)
	dst = append(dst, `,"code":"`+code+`","message":`...)
	dst = jsonx.AppendStringS(dst, e.Message)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	dst = append(dst, `,"error":{"type":`...)
	dst = jsonx.AppendStringS(dst, e.Type)
	dst = append(dst, `,"code":"`+code+`","message":`...)
	dst = jsonx.AppendStringS(dst, e.Message)
	dst = append(dst, `,"param":`...)
	dst = appendNullable(dst, e.Param)
	return append(dst, '}')
}

func appendNullable(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendStringS(dst, s)
}
