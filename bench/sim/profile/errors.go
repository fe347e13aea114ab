package profile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// APIError is an error before it is written in an engine's format.
type APIError struct {
	Status  int
	Message string
	Kind    string // error type; if empty, the profile's type for the status
	Code    string // OpenAI's string code, if the profile has one
	Param   string
	Extra   string // additional members, as `,"name":value`
	Bare    bool   // plain text without type and code, as LM Studio returns errors from its model runner
	// the body is not a JSON object, for which engines with typed requests have separate messages
	Unread bool
}

// InvalidParam returns the error for an invalid parameter.
func InvalidParam(param, format string, a ...any) *APIError {
	return &APIError{Status: 400, Message: fmt.Sprintf(format, a...), Param: param}
}

// ErrorTypeOf returns the profile's error type for a status.
func (p *Profile) ErrorTypeOf(status int) string {
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

// Reply is a complete response that does not depend on generated output.
type Reply struct {
	Status int
	Type   string
	Lines  string // additional header lines
	Body   []byte
}

// OllamaContentType is the Content-Type that Ollama uses for its pages, and for the error about a
// body that it cannot read. Its responses under /v1 have no charset.
const OllamaContentType = "application/json; charset=utf-8"

// PlainTextReply returns a plain text reply.
func (p *Profile) PlainTextReply(status int, text string) Reply {
	return Reply{Status: status, Type: p.TextType, Body: []byte(text)}
}

// QueueFullError returns the profile's error for a full queue. Engines with an unlimited queue
// never send this error. Their profile contains the error of a proxy in front of the engine.
func (p *Profile) QueueFullError() APIError {
	if p.FullError.Message != "" {
		return p.FullError
	}
	return APIError{
		Status:  503,
		Message: "The server is overloaded: the maximum number of queued requests is reached. Please try again later.",
	}
}

// UnknownModelError returns the profile's error for a model that the engine does not serve.
func (p *Profile) UnknownModelError(asked string) APIError {
	err := p.NoModel
	if err.Message == "" {
		err = APIError{Status: 404, Message: "The model `%s` does not exist.", Param: "model"}
	}
	err.Message = strings.Replace(err.Message, "%s", asked, 1)
	return err
}

// CheckVoice returns an error for a voice that the engine does not have. It checks only Kokoro's
// voices.
func (p *Profile) CheckVoice(name string) *APIError {
	if p.Family != "kokoro" || name == "" || slices.Contains(openaiVoices, name) || slices.Contains(KokoroVoices, name) {
		return nil
	}
	return &APIError{
		Status: 400, Code: "validation_error", Kind: "invalid_request_error",
		Message: "Voice '" + name + "' not found. Available voices: " + strings.Join(KokoroVoices, ", "),
	}
}

// KokoroVoices are the voices of Kokoro. openaiVoices are OpenAI's names, which Kokoro maps to its
// voices.
var (
	openaiVoices = []string{"alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse"}
	KokoroVoices = []string{"af_alloy", "af_bella", "af_heart", "af_sky", "am_adam", "am_echo", "bf_emma", "bm_george"}
)
