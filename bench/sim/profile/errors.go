package profile

import (
	"fmt"
	"strconv"

	"penstock/bench/sim/wire"
)

// APIError is an error answer before it is put in an engine's shape.
type APIError struct {
	Status  int
	Message string
	Kind    string // type; empty: the profile's name for the status
	Code    string // OpenAI's string code, where the profile has one
	Param   string
	extra   string // further members, as `,"name":value`
	bare    bool   // LM Studio tells its model runner's errors as a text, without type and code
	Unread  bool   // the body is no JSON object: engines with typed requests have words of their own for that
}

// Invalid is the error of a request with a bad parameter.
func Invalid(param, format string, a ...any) *APIError {
	return &APIError{Status: 400, Message: fmt.Sprintf(format, a...), Param: param}
}

// kind is the profile's name for a status.
func (p *Profile) kind(status int) string {
	names := p.Kinds
	if names == nil {
		names = ByName["openai"].Kinds
	}
	for _, n := range []int{status, min(status/100, 5)} {
		if name := names[n]; name != "" {
			return name
		}
	}
	return strconv.Itoa(status)
}

// AppendError writes the error in the profile's shape. It is JSON for every family; fail knows who
// answers in plain text.
func (p *Profile) AppendError(dst []byte, a APIError) []byte {
	if a.Kind == "" {
		a.Kind = p.kind(a.Status)
	}
	o := wire.Members(dst)
	switch p.Family {
	case "sglang", "trtllm":
		o = append(o, '{')
		o.Text("object", "error")
		o.Text("message", a.Message)
		o.Text("type", a.Kind)
		o.OrNull("param", a.Param)
		o.Number("code", a.Status)
		return append(append(o, a.extra...), '}')
	case "tgi":
		o = append(o, '{')
		o.Text("error", a.Message)
		o.Text("error_type", a.Kind)
		return append(o, '}')
	case "whisper":
		o = append(o, '{')
		o.Text("error", a.Message)
		return append(o, '}')
	case "speaches", "kokoro":
		return p.appendDetail(o, a)
	case "lmstudio":
		if a.bare {
			o = append(o, '{')
			o.Text("error", a.Message)
			return append(o, '}')
		}
	case "llamacpp":
		o = append(o, `{"error":{`...)
		o.Number("code", a.Status)
		o.Text("message", a.Message)
		o.Text("type", a.Kind)
		return append(append(o, a.extra...), "}}"...)
	}
	o = append(o, `{"error":{`...)
	o.Text("message", a.Message)
	o.Text("type", a.Kind)
	if p.Family == "ollama" {
		a.Param = ""
	}
	o.OrNull("param", a.Param)
	if p.Family == "vllm" {
		o.Number("code", a.Status)
	} else {
		o.OrNull("code", a.Code)
	}
	return append(append(o, a.extra...), "}}"...)
}

// appendDetail writes an error as FastAPI does: a list of what does not fit the declared request, a
// text, or Kokoro's object.
func (p *Profile) appendDetail(o wire.Members, a APIError) []byte {
	o = append(o, '{')
	switch {
	case a.Status == 422:
		o.Raw("detail", "[{")
		o.Text("type", "value_error")
		o.Raw("loc", `["body",`)
		o = append(wire.AppendString(o, a.Param), ']')
		o.Text("msg", a.Message)
		o.Raw("input", "null")
		return append(o, "}]}"...)
	case p.Family == "kokoro" && a.Code != "":
		o.Raw("detail", "{")
		o.Text("error", a.Code)
		o.Text("message", a.Message)
		o.Text("type", a.Kind)
		return append(o, "}}"...)
	}
	o.Text("detail", a.Message)
	return append(o, '}')
}

// AppendStreamError writes the error as the data of an event: always an object with an error
// member.
func (p *Profile) AppendStreamError(dst []byte, a APIError) []byte {
	switch p.Family {
	case "sglang", "trtllm", "speaches", "kokoro":
		dst = append(dst, `{"error":`...)
		dst = p.AppendError(dst, a)
		return append(dst, '}')
	case "tgi": // whatever it was, the number is 422
		o := append(wire.Members(dst), `{"error":{`...)
		o.Text("message", a.Message)
		o.Number("http_status_code", 422)
		return append(o, "}}"...)
	case "lmstudio":
		o := append(wire.Members(dst), `{"error":{`...)
		o.Text("message", a.Message)
		return append(o, "}}"...)
	}
	return p.AppendError(dst, a)
}
