package sim

import (
	"fmt"

	"penstock/bench/sim/wire"
)

// notFound answers a path that the engine does not have.
func (x *exchange) notFound() {
	switch {
	case x.p.page404 != "":
		x.json(404, []byte(x.p.page404))
	case x.p.family == "ollama":
		x.reply(404, "text/plain", []byte("404 page not found"))
	case x.p.family == "llamacpp": // without the exchange's members in its order
		x.json(404, []byte(`{"error":{"message":"File Not Found","type":"not_found_error","code":404}}`))
	case x.p.family == "whisper":
		x.plainText(404, "File Not Found ("+x.req.path+")")
	case x.p.family == "tgi":
		x.reply(404, "", nil)
	case x.p.family == "lmstudio":
		o := wire.Members{'{'}
		o.Text("error", "Unexpected endpoint or method. ("+x.req.method+" "+x.req.path+")")
		x.json(200, append(o, '}'))
	default:
		x.fail(apiError{status: 404, message: "Invalid URL (" + x.req.method + " " + x.req.path + ")"})
	}
}

// wrongMethod answers a method that the path does not have.
func (x *exchange) wrongMethod(allowed string) {
	switch x.p.family {
	case "llamacpp", "whisper", "lmstudio":
		x.notFound()
		return
	}
	x.t.lines = append(x.t.lines, "Allow: "+allowed+"\r\n"...)
	switch x.p.family {
	case "ollama":
		x.reply(405, "text/plain", []byte("405 method not allowed"))
	case "tgi":
		x.reply(405, "", nil)
	default:
		x.json(405, []byte(`{"detail":"Method Not Allowed"}`))
	}
}

func (x *exchange) unauthorized() {
	switch x.p.family {
	case "vllm", "sglang":
		x.json(401, []byte(`{"error":"Unauthorized"}`))
	case "llamacpp":
		x.json(401, []byte(`{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`))
	case "tgi":
		x.reply(401, "", nil)
	case "speaches":
		x.json(403, []byte(`{"detail":"Invalid API key"}`))
	default:
		x.fail(apiError{
			status: 401, message: "Incorrect API key provided.", kind: "invalid_request_error",
			code: "invalid_api_key",
		})
	}
}

// tooLong is what the profile says of a prompt of so many tokens that wants so many more (below 0:
// not said) in a context of size.
func (p *profile) tooLong(prompt, want, size int) apiError {
	err := apiError{status: 400, param: "messages"}
	switch p.family {
	case "llamacpp", "ollama":
		err.message = fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it",
			prompt, size)
		err.kind = "exceed_context_size_error"
		err.extra = fmt.Sprintf(`,"n_prompt_tokens":%d,"n_ctx":%d`, prompt, size)
		if p.family == "ollama" { // the runner's answer, as text inside of its own
			return apiError{status: 400, message: string(profiles["llamacpp"].appendError(nil, err))}
		}
	case "sglang":
		err.param = ""
		err.message = fmt.Sprintf("Requested token count exceeds the model's maximum context length of %d tokens. You requested a total of %d tokens: %d tokens from the input messages and %d tokens for the completion. Please reduce the number of tokens in the input messages or the completion to fit within the limit.",
			size, prompt+max(want, 0), prompt, max(want, 0))
	case "tgi":
		err.status = 422
		err.message = fmt.Sprintf("Input validation error: `inputs` tokens + `max_new_tokens` must be <= %d. Given: %d `inputs` tokens and %d `max_new_tokens`", size, prompt, max(want, 0))
		if prompt >= size {
			err.message = fmt.Sprintf("Input validation error: `inputs` must have less than %d tokens. Given: %d", size, prompt)
		}
	case "trtllm":
		err.param = ""
		err.message = fmt.Sprintf("`default_max_tokens` (%d) must be greater than 0, `default_max_tokens` (%d) = max_seq_len (%d) - `splited_prompt_len` (%d) - `query_token_len` (0)",
			size-prompt, size-prompt, size, prompt)
	case "lmstudio":
		err.bare = true
		err.message = fmt.Sprintf("The number of tokens to keep from the initial prompt is greater than the context length (n_keep: %d>= n_ctx: %d). Try to load the model with a larger context length, or provide a shorter input.", prompt, size)
	case "openai":
		err.code = "context_length_exceeded"
		err.message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens. Please reduce the length of the messages.",
			size, prompt)
	default:
		err.param = "input_tokens"
		err.message = fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.",
			size, prompt)
		if prompt < size {
			err.param = "max_tokens"
			err.message = fmt.Sprintf("'max_tokens' or 'max_completion_tokens' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens (%d > %d - %d).",
				want, size, prompt, want, size, prompt)
		}
	}
	return err
}

// full is how the profile refuses a request that found no place in its queue. Engines whose queue
// has no bound never say it: then it is what the one in front of them would say.
func (p *profile) full() apiError {
	err := apiError{status: 503}
	switch p.family {
	case "sglang":
		err.message = "The request queue is full."
	case "llamacpp":
		err.message = "no slot available"
	case "ollama":
		err.message = "server busy, please try again.  maximum pending requests exceeded"
	case "openai":
		err.message = "The engine is currently overloaded, please try again later"
	case "tgi":
		err.status, err.message = 429, "Model is overloaded"
	default:
		err.message = "The server is overloaded: the maximum number of queued requests is reached. Please try again later."
	}
	return err
}

// unknownModelError is how the profile refuses a model that it does not have.
func (p *profile) unknownModelError(asked string) apiError {
	err := apiError{status: 404, message: "The model `" + asked + "` does not exist.", param: "model"}
	switch p.name {
	case "ollama":
		err.message, err.param = "model '"+asked+"' not found", ""
	case "openai":
		err.message, err.code = "The model `"+asked+"` does not exist or you do not have access to it.", "model_not_found"
	case "lmstudio":
		err.message, err.code, err.kind = "Model \""+asked+"\" not found.", "model_not_found", "invalid_request_error"
	case "llamacpp-router":
		err.status, err.param = 400, ""
		err.message = fmt.Sprintf("model '%s' not found", asked)
	case "speaches":
		err.message = "Model '" + asked + "' is not installed locally. You can download the model using `POST /v1/models`"
	case "kokoro":
		err.status, err.message, err.code, err.kind = 400, "Unsupported model: "+asked, "invalid_model", "invalid_request_error"
	}
	return err
}
