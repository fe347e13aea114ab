package profile

import "penstock/bench/sim/wire"

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

func (p *Profile) json(status int, body string) Reply {
	return Reply{Status: status, Type: p.JSONType, Body: []byte(body)}
}

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

// NotFound answers a path that the engine does not have.
func (p *Profile) NotFound(method, path string) Reply {
	switch {
	case p.Page404 != "":
		return p.json(404, p.Page404)
	case p.Family == "ollama":
		return Reply{Status: 404, Type: "text/plain", Body: []byte("404 page not found")}
	case p.Family == "llamacpp": // without the exchange's members in its order
		return p.json(404, `{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`)
	case p.Family == "whisper":
		return p.PlainText(404, "File Not Found ("+path+")")
	case p.Family == "tgi":
		return Reply{Status: 404}
	case p.Family == "lmstudio":
		o := wire.Members{'{'}
		o.Text("error", "Unexpected endpoint or method. ("+method+" "+path+")")
		return p.json(200, string(append(o, '}')))
	}
	return p.Refuse(APIError{Status: 404, Message: "Invalid URL (" + method + " " + path + ")"})
}

// WrongMethod answers a method that a path does not have.
func (p *Profile) WrongMethod(method, path, allowed string) Reply {
	r := Reply{Status: 405, Lines: "Allow: " + allowed + "\r\n"}
	switch p.Family {
	case "llamacpp", "whisper", "lmstudio":
		return p.NotFound(method, path)
	case "ollama":
		r.Type, r.Body = "text/plain", []byte("405 method not allowed")
	case "tgi":
	default:
		r.Type, r.Body = p.JSONType, []byte(`{"detail":"Method Not Allowed"}`)
	}
	return r
}

// Unauthorized answers a request without the key.
func (p *Profile) Unauthorized() Reply {
	switch p.Family {
	case "vllm", "sglang":
		return p.json(401, `{"error":"Unauthorized"}`)
	case "llamacpp":
		return p.json(401, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`)
	case "tgi":
		return Reply{Status: 401}
	case "speaches":
		return p.json(403, `{"detail":"Invalid API key"}`)
	}
	return p.Refuse(APIError{
		Status: 401, Message: "Incorrect API key provided.", Kind: "invalid_request_error", Code: "invalid_api_key",
	})
}
