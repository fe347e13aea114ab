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
	Kind    string // type; empty: the profile's name for the status
	Code    string // OpenAI's string code, where the profile has one
	Param   string
	Extra   string // further members, as `,"name":value`
	Bare    bool   // LM Studio returns its model runner's errors as text, without type and code
	Unread  bool   // the body is not a JSON object: engines with typed requests have their own messages for that
}

// Invalid returns the error for a request with a bad parameter.
func Invalid(param, format string, a ...any) *APIError {
	return &APIError{Status: 400, Message: fmt.Sprintf(format, a...), Param: param}
}

// Kind returns the profile's name for a status.
func (p *Profile) Kind(status int) string {
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

// Reply is a complete answer that does not depend on the work.
type Reply struct {
	Status int
	Type   string
	Lines  string // further header lines
	Body   []byte
}

// OllamaType is Ollama's type for its own pages and for bodies that it could not read; /v1 answers
// have no charset.
const OllamaType = "application/json; charset=utf-8"

// PlainText returns an answer in plain text.
func (p *Profile) PlainText(status int, text string) Reply {
	return Reply{Status: status, Type: p.TextType, Body: []byte(text)}
}

// Full returns the profile's error for a request that its full queue does not accept. Engines with
// an unlimited queue never send it themselves. For such an engine it is the error of a proxy in
// front of the engine.
func (p *Profile) Full() APIError {
	if p.FullError.Message != "" {
		return p.FullError
	}
	return APIError{
		Status:  503,
		Message: "The server is overloaded: the maximum number of queued requests is reached. Please try again later.",
	}
}

// UnknownModelError returns the profile's error for a model that it does not have.
func (p *Profile) UnknownModelError(asked string) APIError {
	err := p.NoModel
	if err.Message == "" {
		err = APIError{Status: 404, Message: "The model `%s` does not exist.", Param: "model"}
	}
	err.Message = strings.Replace(err.Message, "%s", asked, 1)
	return err
}

// CheckVoice refuses a voice that the engine does not have. Only Kokoro's list is known.
func (p *Profile) CheckVoice(name string) *APIError {
	if p.Family != "kokoro" || name == "" || slices.Contains(openaiVoices, name) || slices.Contains(KokoroVoices, name) {
		return nil
	}
	return &APIError{
		Status: 400, Code: "validation_error", Kind: "invalid_request_error",
		Message: "Voice '" + name + "' not found. Available voices: " + strings.Join(KokoroVoices, ", "),
	}
}

// KokoroVoices are Kokoro's own voices. The other list has OpenAI's names, which Kokoro maps to its
// own voices.
var (
	openaiVoices = []string{"alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse"}
	KokoroVoices = []string{"af_alloy", "af_bella", "af_heart", "af_sky", "am_adam", "am_echo", "bf_emma", "bm_george"}
)
