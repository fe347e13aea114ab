package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// fault describes an error in one member of a request. If it is about an unsupported parameter, its
// text is a complete sentence without the full stop.
type fault = chat.Invalid

// refusal returns f as the error that leaves the package. Clients rely on the wording to
// distinguish "Unsupported parameter: X" from a broken request.
func refusal(f *fault) *apierr.Error {
	if f.Code == apierr.CodeUnsupportedParameter {
		return apierr.Invalid(f.Param, f.Code, "Unsupported parameter: %s. %s.", f.Param, f.Text)
	}
	return apierr.Invalid(f.Param, f.Code, "%s %s.", f.Param, f.Text)
}

// optional checks a member that may be absent, null or a value for which is returns true.
func optional(name, want string, v jsonx.Value, is func(jsonx.Value) bool) *fault {
	if chat.Given(v) && !is(v) {
		return chat.WrongType(name, want, v)
	}
	return nil
}

func optionalBool(name string, v jsonx.Value) *fault {
	return optional(name, "true or false", v, jsonx.Value.IsBool)
}

// optionalCount checks a member that may be absent, null or an integer of 0 or more.
func optionalCount(name string, v jsonx.Value) *fault {
	if f := optional(name, "an integer", v, jsonx.Value.IsNumber); f != nil || !chat.Given(v) {
		return f
	}
	if n, ok := v.Int(); !ok || n < 0 {
		return chat.WrongValue(name, "must be an integer of 0 or more")
	}
	return nil
}

// The codes that an error within a response or a stream may have. The openai SDK has a closed union
// of error codes; its other codes are for cases that do not occur here.
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

// MapError rewrites an engine's refusal that the edge recognized outside this package in the terms
// of Responses.
func MapError(e *apierr.Error) *apierr.Error {
	if e.Param != "messages" {
		return e
	}
	mapped := *e
	mapped.Param = "input"
	return &mapped
}

// appendError appends the members of an error in both forms that clients know. OpenAI's SDKs read
// the flat form. Without the object, the openai SDK does not throw.
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
