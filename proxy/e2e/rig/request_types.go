package rig

import (
	"encoding/json"
	"slices"
)

// RequestType is a kind of request: a dialect, streamed or unstreamed.
type RequestType struct {
	Dialect string // chat, messages, responses, transcription or speech
	Path    string
	Stream  bool
}

// These are the audio requests. The edge passes speech on while receiving it, but reads a
// transcription completely before it responds.
var (
	Transcription = RequestType{"transcription", "/v1/audio/transcriptions", false}
	Speech        = RequestType{"speech", "/v1/audio/speech", false}
)

// ModelKind returns the `kind` member of a model's configuration, for models that are not chat
// models.
func (w RequestType) ModelKind() string {
	switch w.Dialect {
	case "transcription":
		return "kind: audio-transcription"
	case "speech":
		return "kind: audio-speech"
	}
	return ""
}

// These are the requests that generate text.
var (
	Chat            = RequestType{"chat", "/v1/chat/completions", false}
	ChatStream      = RequestType{"chat", "/v1/chat/completions", true}
	Messages        = RequestType{"messages", "/v1/messages", false}
	MessagesStream  = RequestType{"messages", "/v1/messages", true}
	Responses       = RequestType{"responses", "/v1/responses", false}
	ResponsesStream = RequestType{"responses", "/v1/responses", true}
)

// TextRequestTypes are all requests that generate text. UnstreamedRequestTypes and
// StreamRequestTypes are the unstreamed and the streamed ones among them. RequestTypesWithAudio
// adds the audio requests to TextRequestTypes.
var (
	RequestTypesWithAudio  = append(slices.Clone(TextRequestTypes), Transcription, Speech)
	TextRequestTypes       = []RequestType{Chat, ChatStream, Messages, MessagesStream, Responses, ResponsesStream}
	UnstreamedRequestTypes = []RequestType{Chat, Messages, Responses}
	StreamRequestTypes     = []RequestType{ChatStream, MessagesStream, ResponsesStream}
)

// RequestTypesForVariant returns the types of requests with which variant i of a row is tested. The
// first variant is tested with all types in ways. To limit the number of programs, each later
// variant is tested with only two of them.
func RequestTypesForVariant(ways []RequestType, i int) []RequestType {
	if i == 0 {
		return ways
	}
	n := len(ways)
	return []RequestType{ways[2*i%n], ways[(2*i+1+i/n)%n]}
}

// String returns the name of the type, for use in subtest names.
func (w RequestType) String() string {
	if w.Stream {
		return w.Dialect + "-stream"
	}
	return w.Dialect
}

// RequestBody returns a request for model with prompt as the user's text. control contains members
// for the simulator (see bench/sim).
func (w RequestType) RequestBody(model, prompt, control string) string {
	if control != "" {
		prompt += " [[sim {" + control + "}]]"
	}
	text, _ := json.Marshal(prompt)
	stream := ""
	if w.Stream {
		stream = `,"stream":true`
	}
	switch w.Dialect {
	case "transcription":
		return "--" + multipartBoundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model +
			"\r\n--" + multipartBoundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + prompt +
			"\r\n--" + multipartBoundary + "--\r\n"
	case "speech":
		return `{"model":"` + model + `","input":` + string(text) + `}`
	case "messages":
		return `{"model":"` + model + `","max_tokens":1000` + stream + `,"messages":[{"role":"user","content":` + string(text) + `}]}`
	case "responses":
		return `{"model":"` + model + `"` + stream + `,"input":` + string(text) + `}`
	default:
		return `{"model":"` + model + `"` + stream + `,"messages":[{"role":"user","content":` + string(text) + `}]}`
	}
}

const multipartBoundary = "boundary-of-the-test"

// ContentType returns the Content-Type line of a request body.
func (w RequestType) ContentType() string {
	if w.Dialect == "transcription" {
		return "Content-Type: multipart/form-data; boundary=" + multipartBoundary
	}
	return "Content-Type: application/json"
}

// SendRequest sends a request to the model "sim" and reads the reply. control contains members for
// the simulator.
func (e *Edge) SendRequest(w RequestType, control string) *Reply {
	e.T.Helper()
	return e.SendPrompt(w, Prompt, control)
}

// SendPrompt is like SendRequest, but with the given prompt.
func (e *Edge) SendPrompt(w RequestType, prompt, control string) *Reply {
	e.T.Helper()
	return e.Post(w.Path, w.RequestBody("sim", prompt, control), w.ContentType())
}
