package profile

import (
	"strings"

	"penstock/bench/sim/wire"
)

// Reply is a whole answer that does not depend on the work.
type Reply struct {
	Status int
	Type   string
	Lines  string // further header lines
	Body   []byte
}

// OllamaType is what Ollama says of its own pages and of bodies that it could not read; /v1 answers
// are without charset.
const OllamaType = "application/json; charset=utf-8"

// PlainText is an answer in plain text.
func (p *Profile) PlainText(status int, text string) Reply {
	return Reply{Status: status, Type: p.TextType, Body: []byte(text)}
}

// Refuse is an error as an answer.
func (p *Profile) Refuse(a APIError) Reply {
	switch p.Family {
	case "ollama":
		if a.Status == 400 && (a.Unread || a.Param == "messages") {
			return Reply{Status: 400, Type: OllamaType, Body: p.AppendError(nil, a)}
		}
	case "whisper":
		return p.PlainText(a.Status, a.Message)
	case "tgi":
		if a.Unread { // the HTTP library's own words
			return p.PlainText(a.Status, "Failed to parse the request body as JSON: "+a.Message)
		}
		if a.Status == 400 && a.Param != "" {
			a.Status, a.Message = 422, "Input validation error: "+a.Message
		}
	case "speaches", "kokoro":
		if a.Status == 400 && a.Param != "" && a.Code == "" {
			a.Status = 422
		}
	}
	return Reply{Status: a.Status, Type: p.JSONType, Body: p.AppendError(nil, a)}
}

// fixed is one of the profile's fixed answers.
func (p *Profile) fixed(r fixedReply, method, path string) Reply {
	ctype := r.Type
	if strings.HasPrefix(r.Body, "{") {
		ctype = p.JSONType
		path = strings.Trim(string(wire.AppendString(nil, path)), `"`)
	}
	body := strings.NewReplacer("%m", method, "%p", path).Replace(r.Body)
	return Reply{Status: r.Status, Type: ctype, Body: []byte(body)}
}

// NotFound answers a path that the engine does not have.
func (p *Profile) NotFound(method, path string) Reply {
	if p.NoPage.Status == 0 {
		return p.Refuse(APIError{Status: 404, Message: "Invalid URL (" + method + " " + path + ")"})
	}
	return p.fixed(p.NoPage, method, path)
}

// WrongMethod answers a method that a path does not have.
func (p *Profile) WrongMethod(method, path, allowed string) Reply {
	no := p.NoMethod
	if no.Status == 0 {
		no = fixedReply{Status: 405, Body: `{"detail":"Method Not Allowed"}`}
	}
	r := p.fixed(no, method, path)
	if r.Status == 405 {
		r.Lines = "Allow: " + allowed + "\r\n"
	}
	return r
}

// Unauthorized answers a request without the key.
func (p *Profile) Unauthorized() Reply {
	if p.NoKey.Status != 0 {
		return p.fixed(p.NoKey, "", "")
	}
	return p.Refuse(APIError{
		Status: 401, Message: "Incorrect API key provided.", Kind: "invalid_request_error", Code: "invalid_api_key",
	})
}
