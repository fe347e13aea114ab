package rig

import (
	"encoding/json"
	"slices"
)

// Way is a manner of asking: a dialect, in one piece or as a stream.
type Way struct {
	Dialect string // chat, messages, responses, transcription or speech
	Path    string
	Stream  bool
}

// The ways of audio have one answer each: speech is passed on as it comes, a transcription is read
// whole.
var (
	Transcription = Way{"transcription", "/v1/audio/transcriptions", false}
	Speech        = Way{"speech", "/v1/audio/speech", false}
)

// Kind is the member of a model's configuration that says what it is, for what is no chat.
func (w Way) Kind() string {
	switch w.Dialect {
	case "transcription":
		return "kind: audio-transcription"
	case "speech":
		return "kind: audio-speech"
	}
	return ""
}

// The ways to generate text.
var (
	Chat            = Way{"chat", "/v1/chat/completions", false}
	ChatStream      = Way{"chat", "/v1/chat/completions", true}
	Messages        = Way{"messages", "/v1/messages", false}
	MessagesStream  = Way{"messages", "/v1/messages", true}
	Responses       = Way{"responses", "/v1/responses", false}
	ResponsesStream = Way{"responses", "/v1/responses", true}
)

// AllWays are the ways to generate text; PlainWays and StreamWays are their halves. EveryWay are
// those and audio.
var (
	EveryWay   = append(slices.Clone(AllWays), Transcription, Speech)
	AllWays    = []Way{Chat, ChatStream, Messages, MessagesStream, Responses, ResponsesStream}
	PlainWays  = []Way{Chat, Messages, Responses}
	StreamWays = []Way{ChatStream, MessagesStream, ResponsesStream}
)

// Variants are the ways in which variant i of a row is played: the first in all of ways, each
// further one in two of them, so that a row with many variants meets every way and does not start
// the program for every pair.
func Variants(ways []Way, i int) []Way {
	if i == 0 {
		return ways
	}
	n := len(ways)
	return []Way{ways[2*i%n], ways[(2*i+1+i/n)%n]}
}

// String names the way in the names of subtests.
func (w Way) String() string {
	if w.Stream {
		return w.Dialect + "-stream"
	}
	return w.Dialect
}

// Body is a request for model with prompt as what the user says. control is what the simulator is
// told, members such as `"tokens":5,"delay_ms":20` (bench/sim says which).
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

// boundary is of the form that a transcription is asked by.
const boundary = "boundary-of-the-test"

// ContentType is the header line of a body in this way.
func (w Way) ContentType() string {
	if w.Dialect == "transcription" {
		return "Content-Type: multipart/form-data; boundary=" + boundary
	}
	return "Content-Type: application/json"
}

// Ask asks the model "sim" for a good answer, which control may shape, and reads the reply.
func (e *Edge) Ask(w Way, control string) *Reply {
	e.T.Helper()
	return e.Say(w, Prompt, control)
}

// Say is ask for a prompt of one's own.
func (e *Edge) Say(w Way, prompt, control string) *Reply {
	e.T.Helper()
	return e.Post(w.Path, w.Body("sim", prompt, control), w.ContentType())
}
