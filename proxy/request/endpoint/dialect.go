package endpoint

import (
	"penstock/translate/apierr"
	"penstock/translate/messages"
	"penstock/translate/responses"
)

// Dialect defines how an endpoint reports errors.
type Dialect struct {
	Name string // name in metrics and the log
	// AnthropicRates adds Anthropic's rate limit headers.
	AnthropicRates bool

	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError maps an upstream failure to the statuses of the dialect; nil: unchanged.
	mapError func(e *apierr.Error) *apierr.Error
	// prompt is the member that an error about a too long prompt names. If prompt is "", mapError
	// names the member. If mapError is also nil, the member is messages.
	prompt string
}

// ErrorOf converts e to the error that clients of the dialect receive.
func (d *Dialect) ErrorOf(e *apierr.Error) *apierr.Error {
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

// AppendError appends an error from ErrorOf as a response body.
func (d *Dialect) AppendError(dst []byte, e *apierr.Error, requestID string) []byte {
	return d.appendError(dst, e, requestID)
}

func chatError(dst []byte, e *apierr.Error, _ string) []byte { return e.Append(dst) }

func withChatErrors(name, prompt string) *Dialect {
	return &Dialect{Name: name, appendError: chatError, prompt: prompt}
}

// ChatDialect is also used for errors that belong to no endpoint, such as malformed request headers
// or an unknown path. The catalog uses ModelsForMessages for Messages clients and ModelsDialect for
// all other clients.
var (
	ChatDialect   = withChatErrors("chat", "")
	ModelsDialect = withChatErrors("models", "")

	ModelsForMessages = &Dialect{
		Name: ModelsDialect.Name, appendError: messagesDialect.appendError, mapError: messages.MapError,
	}
)

// responsesDialect has the error format of chat, except in a stream. If an engine's error is about
// the member messages, the client gets an error about input.
var responsesDialect = &Dialect{Name: "responses", appendError: chatError, mapError: responses.MapError}

// messagesDialect answers 529 where other dialects answer 502, 503 or 504.
var messagesDialect = &Dialect{
	Name: "messages", AnthropicRates: true,
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messages.MapError,
}
