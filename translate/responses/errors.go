package responses

import (
	"penstock/translate/apierr"
	"penstock/translate/chat"
	"penstock/translate/jsonx"
)

// requestFault is a mistake in a request. If a parameter is unsupported, the fault's text is a complete
// sentence without the full stop.
type requestFault = chat.InvalidMember

// rejectionError converts a fault to an error. Its wording lets clients distinguish "Unsupported
// parameter: X" from a malformed request.
func rejectionError(f *requestFault) *apierr.Error {
	if f.Code == apierr.CodeUnsupportedParameter {
		return apierr.Invalid(f.Param, f.Code, "Unsupported parameter: %s. %s.", f.Param, f.Text)
	}
	return apierr.Invalid(f.Param, f.Code, "%s %s.", f.Param, f.Text)
}

// checkOptional returns a fault if v is neither absent nor null and is(v) is false.
func checkOptional(name, want string, v jsonx.Value, is func(jsonx.Value) bool) *requestFault {
	if chat.IsGiven(v) && !is(v) {
		return chat.WrongTypeError(name, want, v)
	}
	return nil
}

func checkOptionalBool(name string, v jsonx.Value) *requestFault {
	return checkOptional(name, "true or false", v, jsonx.Value.IsBool)
}

// checkOptionalCount checks a member that may be absent, null or an integer of 0 or more.
func checkOptionalCount(name string, v jsonx.Value) *requestFault {
	if f := checkOptional(name, "an integer", v, jsonx.Value.IsNumber); f != nil || !chat.IsGiven(v) {
		return f
	}
	if n, ok := v.Int(); !ok || n < 0 {
		return chat.WrongValueError(name, "must be an integer of 0 or more")
	}
	return nil
}

// The codes of errors in streams. The types of openai-node allow only a fixed set of codes. The
// omitted codes are for cases that do not occur.
const (
	codeServerError  = "server_error"
	codeRateLimit    = "rate_limit_exceeded"
	codeInvalidInput = "invalid_prompt"
	// OpenAI's service sends this code although the SDK does not list it. Codex compacts a
	// conversation only after this code.
	codeContextLength = "context_length_exceeded"
)

func streamCode(e *apierr.Error) string {
	if e.Code == apierr.CodeContextLength {
		return codeContextLength
	}
	switch e.Type {
	case apierr.TypeRateLimit:
		return codeRateLimit
	case apierr.TypeInvalidRequest, apierr.TypeTooLarge:
		return codeInvalidInput
	}
	return codeServerError
}

// MapError replaces the messages parameter with input in an error about a request that an engine
// rejected.
func MapError(e *apierr.Error) *apierr.Error {
	if e.Param != "messages" {
		return e
	}
	mapped := *e
	mapped.Param = "input"
	return &mapped
}

// appendError writes an error in both forms: as members of the event and as an error object.
// OpenAI's SDKs read the members, but openai-node throws an error only if the object is present.
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
