package sim

import (
	"fmt"
	"strconv"

	"penstock/bench/sim/wire"
)

// apiError is an error answer before it is put in an engine's shape.
type apiError struct {
	status  int
	message string
	kind    string // type; empty: the profile's name for the status
	code    string // OpenAI's string code, where the profile has one
	param   string
	extra   string // further members, as `,"name":value`
	bare    bool   // LM Studio tells its model runner's errors as a text, without type and code
	unread  bool   // the body is no JSON object: engines with typed requests have words of their own for that
}

func invalid(param, format string, a ...any) *apiError {
	return &apiError{status: 400, message: fmt.Sprintf(format, a...), param: param}
}

// kinds are the names of errors by family and status; below 500 and from 500 on are told by 4 and
// 5.
var kinds = map[string]map[int]string{
	"vllm": {
		400: "BadRequestError", 401: "AuthenticationError", 403: "AuthenticationError", 404: "NotFoundError", 422: "UnprocessableEntityError",
		429: "RateLimitError", 501: "NotImplementedError", 503: "ServiceUnavailableError", 4: "InternalServerError", 5: "InternalServerError",
	},
	"sglang": {400: "Bad Request", 500: "InternalServerError"}, // else the status
	"trtllm": {404: "NotFoundError", 4: "BadRequestError", 5: "InternalServerError"},
	"llamacpp": {
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 501: "not_supported_error", 503: "unavailable_error",
		4: "invalid_request_error", 5: "server_error",
	},
	"tgi": {424: "generation", 429: "overloaded", 503: "healthcheck", 4: "validation", 5: "incomplete_generation"},
	"ollama": {
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 4: "invalid_request_error", 5: "api_error",
	},
	"openai": {
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error", 4: "invalid_request_error", 5: "server_error",
	},
}

// kind is the profile's name for a status.
func (p *profile) kind(status int) string {
	names, ok := kinds[p.family]
	if !ok {
		names = kinds["openai"]
	}
	for _, n := range []int{status, min(status/100, 5)} {
		if name := names[n]; name != "" {
			return name
		}
	}
	return strconv.Itoa(status)
}

// appendError writes the error in the profile's shape. It is JSON for every family; fail knows who
// answers in plain text.
func (p *profile) appendError(dst []byte, a apiError) []byte {
	if a.kind == "" {
		a.kind = p.kind(a.status)
	}
	o := wire.Members(dst)
	switch p.family {
	case "sglang", "trtllm":
		o = append(o, '{')
		o.Text("object", "error")
		o.Text("message", a.message)
		o.Text("type", a.kind)
		o.OrNull("param", a.param)
		o.Number("code", a.status)
		return append(append(o, a.extra...), '}')
	case "tgi":
		o = append(o, '{')
		o.Text("error", a.message)
		o.Text("error_type", a.kind)
		return append(o, '}')
	case "whisper":
		o = append(o, '{')
		o.Text("error", a.message)
		return append(o, '}')
	case "speaches", "kokoro":
		return p.appendDetail(o, a)
	case "lmstudio":
		if a.bare {
			o = append(o, '{')
			o.Text("error", a.message)
			return append(o, '}')
		}
	case "llamacpp":
		o = append(o, `{"error":{`...)
		o.Number("code", a.status)
		o.Text("message", a.message)
		o.Text("type", a.kind)
		return append(append(o, a.extra...), "}}"...)
	}
	o = append(o, `{"error":{`...)
	o.Text("message", a.message)
	o.Text("type", a.kind)
	if p.family == "ollama" {
		a.param = ""
	}
	o.OrNull("param", a.param)
	if p.family == "vllm" {
		o.Number("code", a.status)
	} else {
		o.OrNull("code", a.code)
	}
	return append(append(o, a.extra...), "}}"...)
}

// appendDetail writes an error as FastAPI does: a list of what does not fit the declared request, a
// text, or Kokoro's object.
func (p *profile) appendDetail(o wire.Members, a apiError) []byte {
	o = append(o, '{')
	switch {
	case a.status == 422:
		o.Raw("detail", "[{")
		o.Text("type", "value_error")
		o.Raw("loc", `["body",`)
		o = append(wire.AppendString(o, a.param), ']')
		o.Text("msg", a.message)
		o.Raw("input", "null")
		return append(o, "}]}"...)
	case p.family == "kokoro" && a.code != "":
		o.Raw("detail", "{")
		o.Text("error", a.code)
		o.Text("message", a.message)
		o.Text("type", a.kind)
		return append(o, "}}"...)
	}
	o.Text("detail", a.message)
	return append(o, '}')
}

// appendStreamError writes the error as the data of an event: always an object with an error
// member.
func (p *profile) appendStreamError(dst []byte, a apiError) []byte {
	switch p.family {
	case "sglang", "trtllm", "speaches", "kokoro":
		dst = append(dst, `{"error":`...)
		dst = p.appendError(dst, a)
		return append(dst, '}')
	case "tgi": // whatever it was, the number is 422
		o := append(wire.Members(dst), `{"error":{`...)
		o.Text("message", a.message)
		o.Number("http_status_code", 422)
		return append(o, "}}"...)
	case "lmstudio":
		o := append(wire.Members(dst), `{"error":{`...)
		o.Text("message", a.message)
		return append(o, "}}"...)
	}
	return p.appendError(dst, a)
}

// fail answers with an error.
func (x *exchange) fail(a apiError) {
	if body, ok := x.appendNativeError(nil, a); ok {
		x.json(a.status, body)
		return
	}
	switch x.p.family {
	case "ollama":
		if a.status == 400 && (a.unread || a.param == "messages") {
			x.reply(400, ollamaType, x.p.appendError(nil, a))
			return
		}
	case "whisper":
		x.plainText(a.status, a.message)
		return
	case "tgi":
		if a.unread { // the HTTP library's own words
			x.plainText(a.status, "Failed to parse the request body as JSON: "+a.message)
			return
		}
		if a.status == 400 && a.param != "" {
			a.status, a.message = 422, "Input validation error: "+a.message
		}
	case "speaches", "kokoro":
		if a.status == 400 && a.param != "" && a.code == "" {
			a.status = 422
		}
	}
	x.json(a.status, x.p.appendError(nil, a))
}

// plainText answers in plain text.
func (x *exchange) plainText(status int, text string) { x.reply(status, x.p.textType, []byte(text)) }
