package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
	"penstock/translate/responses"
)

// dialect is how an endpoint speaks: the shape of its errors and what its contract calls an engine's failure.
type dialect struct {
	name string // the metrics' and log's word
	// appendError renders e for a client of this dialect.
	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError says an upstream's failure in this dialect's statuses; nil: as it is.
	mapError func(e *apierr.Error) *apierr.Error
	// prompt is the member that holds what an engine calls too long; empty: messages, or as mapError has it.
	prompt string
}

// errorOf returns e as this dialect's clients see it.
func (d *dialect) errorOf(e *apierr.Error) *apierr.Error {
	if d.mapError != nil {
		return d.mapError(e)
	}
	if d.prompt != "" && e.Code == apierr.CodeContextLength && e.Param == "messages" {
		own := *e
		own.Param = d.prompt
		return &own
	}
	return e
}

func chatError(dst []byte, e *apierr.Error, _ string) []byte { return e.Append(dst) }

// dialectChat is also the shape of errors that belong to no endpoint: a head that did not parse, an unknown path.
var dialectChat = &dialect{name: "chat", appendError: chatError}

// dialectResponses has the shape of chat's errors outside of a stream; what an engine says of messages is about input.
var dialectResponses = &dialect{name: "responses", appendError: chatError, mapError: responses.MapError}

var dialectModels = &dialect{name: "models", appendError: chatError}

// dialectMessages answers 529 where the others have 502, 503 and 504.
var dialectMessages = &dialect{
	name:        "messages",
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messagesError,
}

// messagesError says an error as the contract has it for Messages. An engine's failure is 529 with a Retry-After, whatever
// it was. A prompt that does not fit is told in the words that agents look for before they compact a conversation, and one
// that would with a smaller max_tokens also in those by which they lower it and ask again. Images that the model does not take
// are told in the words by which they leave them out.
func messagesError(e *apierr.Error) *apierr.Error {
	own := *e
	switch {
	case e.Status == 502 || e.Status == 503 || e.Status == 504:
		own.Status, own.Type = apierr.StatusOverloaded, apierr.TypeOverloaded
		own.RetryAfter = max(e.RetryAfter, retrySoon)
	case e.Overflow.Known() && e.Overflow.Answer > 0:
		o := e.Overflow
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum; input length and `max_tokens` exceed context limit: %d + %d > %d, "+
			"decrease input length or `max_tokens` and try again", o.Prompt+o.Answer, o.Max, o.Prompt, o.Answer, o.Max)
	case e.Overflow.Known():
		own.Message = fmt.Sprintf(promptTooLong+": %d tokens > %d maximum", e.Overflow.Prompt, e.Overflow.Max)
	case e.Code == apierr.CodeContextLength && e.Param == "messages" && !strings.HasPrefix(e.Message, promptTooLong):
		own.Message = promptTooLong + ". " + e.Message
	case e.Status == 400 && aboutImages(e.Message):
		own.Message = e.Message + " " + imageRefused
	default:
		return e
	}
	return &own
}

// imageRefused is what agents look for before they take the images out of a conversation, which else would get the same
// answer for ever.
const imageRefused = "Could not process image."

// imageTexts are what we and engines say, in lower case, about images that are not taken, or not so many of them.
var imageTexts = []string{
	"the model does not take images", // ours, and the next four
	"send a smaller image",
	"webp",
	"must hold an image",
	"is one image too many",
	"image input is not supported",  // llama.cpp; Ollama passes it on
	"does not support image",        // llama.cpp, Ollama, SGLang
	"data required for image input", // Ollama
	"is not a multimodal model",     // vLLM
	"image(s) may be provided",      // vLLM: at most so many
}

func aboutImages(message string) bool {
	lower := strings.ToLower(message)
	return slices.ContainsFunc(imageTexts, func(text string) bool { return strings.Contains(lower, text) })
}

const promptTooLong = "prompt is too long"

// dialectAt returns the dialect that a path is meant for: that of the endpoint there, or above it.
func dialectAt(path []byte) *dialect {
	for _, ep := range endpoints {
		if rest, ok := bytes.CutPrefix(path, []byte(ep.path)); ok && (len(rest) == 0 || rest[0] == '/') {
			return ep.dialect
		}
	}
	return dialectChat
}

// dialectOf is dialectAt for the path of a request.
func dialectOf(ctx *fasthttp.RequestCtx) *dialect {
	path, _, _ := bytes.Cut(ctx.Request.Header.RequestURI(), []byte{'?'})
	return dialectAt(path)
}
