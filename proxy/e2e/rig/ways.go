package rig

import (
	"encoding/json"
	"slices"
)

// Way is a kind of request: a dialect, streamed or unstreamed.
type Way struct {
	Dialect string // chat, messages, responses, transcription or speech
	Path    string
	Stream  bool
}

// These are the audio ways. The edge passes speech on while receiving it, but reads a transcription
// completely before it responds.
var (
	Transcription = Way{"transcription", "/v1/audio/transcriptions", false}
	Speech        = Way{"speech", "/v1/audio/speech", false}
)

// Kind returns the `kind` member of a model's configuration, for models that are not chat models.
func (w Way) Kind() string {
	switch w.Dialect {
	case "transcription":
		return "kind: audio-transcription"
	case "speech":
		return "kind: audio-speech"
	}
	return ""
}

// These are the ways to generate text.
var (
	Chat            = Way{"chat", "/v1/chat/completions", false}
	ChatStream      = Way{"chat", "/v1/chat/completions", true}
	Messages        = Way{"messages", "/v1/messages", false}
	MessagesStream  = Way{"messages", "/v1/messages", true}
	Responses       = Way{"responses", "/v1/responses", false}
	ResponsesStream = Way{"responses", "/v1/responses", true}
)

// TextWays are all ways to generate text. UnstreamedWays and StreamWays are the unstreamed and the
// streamed ways among them. WaysWithAudio adds the audio ways to TextWays.
var (
	WaysWithAudio  = append(slices.Clone(TextWays), Transcription, Speech)
	TextWays       = []Way{Chat, ChatStream, Messages, MessagesStream, Responses, ResponsesStream}
	UnstreamedWays = []Way{Chat, Messages, Responses}
	StreamWays     = []Way{ChatStream, MessagesStream, ResponsesStream}
)

// WaysForVariant returns the ways in which variant i of a row is tested. The first variant is tested in
// all ways. To limit the number of programs, each later variant is tested in only two ways.
func WaysForVariant(ways []Way, i int) []Way {
	if i == 0 {
		return ways
	}
	n := len(ways)
	return []Way{ways[2*i%n], ways[(2*i+1+i/n)%n]}
}

// String returns the name of the way, for use in subtest names.
func (w Way) String() string {
	if w.Stream {
		return w.Dialect + "-stream"
	}
	return w.Dialect
}

// Body returns a request for model with prompt as the user's text. control contains members for the
// simulator (see bench/sim).
func (w Way) Body(model, prompt, control string) string {
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
		return "--" + boundary + "\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\n" + model +
			"\r\n--" + boundary + "\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\nContent-Type: audio/wav\r\n\r\n" + prompt +
			"\r\n--" + boundary + "--\r\n"
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

const boundary = "boundary-of-the-test"

// ContentType returns the Content-Type line of a request body.
func (w Way) ContentType() string {
	if w.Dialect == "transcription" {
		return "Content-Type: multipart/form-data; boundary=" + boundary
	}
	return "Content-Type: application/json"
}

// Ask sends a request to the model "sim" and reads the reply. control contains members for the
// simulator.
func (e *Edge) Ask(w Way, control string) *Reply {
	e.T.Helper()
	return e.AskPrompt(w, Prompt, control)
}

// AskPrompt is like Ask, but with the given prompt.
func (e *Edge) AskPrompt(w Way, prompt, control string) *Reply {
	e.T.Helper()
	return e.Post(w.Path, w.Body("sim", prompt, control), w.ContentType())
}
