package sim

import (
	"penstock/bench/sim/profile"
	"penstock/bench/sim/wire"
)

// fail answers with an error.
func (x *exchange) fail(a profile.APIError) {
	if body, ok := x.appendNativeError(nil, a); ok {
		x.json(a.Status, body)
		return
	}
	switch x.p.Family {
	case "ollama":
		if a.Status == 400 && (a.Unread || a.Param == "messages") {
			x.reply(400, ollamaType, x.p.AppendError(nil, a))
			return
		}
	case "whisper":
		x.plainText(a.Status, a.Message)
		return
	case "tgi":
		if a.Unread { // the HTTP library's own words
			x.plainText(a.Status, "Failed to parse the request body as JSON: "+a.Message)
			return
		}
		if a.Status == 400 && a.Param != "" {
			a.Status, a.Message = 422, "Input validation error: "+a.Message
		}
	case "speaches", "kokoro":
		if a.Status == 400 && a.Param != "" && a.Code == "" {
			a.Status = 422
		}
	}
	x.json(a.Status, x.p.AppendError(nil, a))
}

// plainText answers in plain text.
func (x *exchange) plainText(status int, text string) { x.reply(status, x.p.TextType, []byte(text)) }

// notFound answers a path that the engine does not have.
func (x *exchange) notFound() {
	switch {
	case x.p.Page404 != "":
		x.json(404, []byte(x.p.Page404))
	case x.p.Family == "ollama":
		x.reply(404, "text/plain", []byte("404 page not found"))
	case x.p.Family == "llamacpp": // without the exchange's members in its order
		x.json(404, []byte(`{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`))
	case x.p.Family == "whisper":
		x.plainText(404, "File Not Found ("+x.req.path+")")
	case x.p.Family == "tgi":
		x.reply(404, "", nil)
	case x.p.Family == "lmstudio":
		o := wire.Members{'{'}
		o.Text("error", "Unexpected endpoint or method. ("+x.req.method+" "+x.req.path+")")
		x.json(200, append(o, '}'))
	default:
		x.fail(profile.APIError{Status: 404, Message: "Invalid URL (" + x.req.method + " " + x.req.path + ")"})
	}
}

// wrongMethod answers a method that the path does not have.
func (x *exchange) wrongMethod(allowed string) {
	switch x.p.Family {
	case "llamacpp", "whisper", "lmstudio":
		x.notFound()
		return
	}
	x.t.lines = append(x.t.lines, "Allow: "+allowed+"\r\n"...)
	switch x.p.Family {
	case "ollama":
		x.reply(405, "text/plain", []byte("405 method not allowed"))
	case "tgi":
		x.reply(405, "", nil)
	default:
		x.json(405, []byte(`{"detail":"Method Not Allowed"}`))
	}
}

func (x *exchange) unauthorized() {
	switch x.p.Family {
	case "vllm", "sglang":
		x.json(401, []byte(`{"error":"Unauthorized"}`))
	case "llamacpp":
		x.json(401, []byte(`{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`))
	case "tgi":
		x.reply(401, "", nil)
	case "speaches":
		x.json(403, []byte(`{"detail":"Invalid API key"}`))
	default:
		x.fail(profile.APIError{
			Status: 401, Message: "Incorrect API key provided.", Kind: "invalid_request_error",
			Code: "invalid_api_key",
		})
	}
}

// ollamaType is what Ollama says of its own pages and of bodies that it could not read; /v1 answers
// are without charset.
const ollamaType = "application/json; charset=utf-8"
