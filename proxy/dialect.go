package proxy

import (
	"bytes"

	"github.com/valyala/fasthttp"

	"penstock/translate/apierr"
	"penstock/translate/messages"
	"penstock/translate/responses"
)

// dialect is how an endpoint speaks: the shape of its errors and what its contract calls an
// engine's failure.
type dialect struct {
	name string // the metrics' and log's word
	// appendError renders e for a client of this dialect.
	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError says an upstream's failure in this dialect's statuses; nil: as it is.
	mapError func(e *apierr.Error) *apierr.Error
	// prompt is the member that holds what an engine calls too long; empty: messages, or as
	// mapError has it.
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

// dialectChat is also the shape of errors that belong to no endpoint: a head that did not parse, an
// unknown path.
var dialectChat = &dialect{name: "chat", appendError: chatError}

// dialectResponses has the shape of chat's errors outside of a stream; what an engine says of
// messages is about input.
var dialectResponses = &dialect{name: "responses", appendError: chatError, mapError: responses.MapError}

var dialectModels = &dialect{name: "models", appendError: chatError}

// dialectMessages answers 529 where the others have 502, 503 and 504.
var dialectMessages = &dialect{
	name:        "messages",
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messages.MapError,
}

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
