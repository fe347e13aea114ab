package endpoint

import (
	"penstock/translate/apierr"
	"penstock/translate/messages"
	"penstock/translate/responses"
)

// Dialect defines how an endpoint reports errors.
type Dialect struct {
	Name string // name in metrics and in the log
	// AnthropicRates is true if responses also contain Anthropic's rate limit headers.
	AnthropicRates bool

	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError maps an upstream failure to a status of the dialect. If nil, the failure is
	// unchanged.
	mapError func(e *apierr.Error) *apierr.Error
	// promptMember is the member named in the error for a prompt that is too long. If promptMember
	// is empty, mapError names the member. If mapError is also nil, the member is messages.
	promptMember string
}

// ConvertError converts e to the error that clients of the dialect receive.
func (d *Dialect) ConvertError(e *apierr.Error) *apierr.Error {
	if d.mapError != nil {
		return d.mapError(e)
	}
	if d.promptMember != "" && e.Code == apierr.CodeContextLength && e.Param == "messages" {
		own := *e
		own.Param = d.promptMember
		return &own
	}
	return e
}

// AppendError appends an error from ConvertError as a response body.
func (d *Dialect) AppendError(dst []byte, e *apierr.Error, requestID string) []byte {
	return d.appendError(dst, e, requestID)
}

func appendChatError(dst []byte, e *apierr.Error, _ string) []byte { return e.AppendBody(dst) }

func newChatErrorDialect(name, prompt string) *Dialect {
	return &Dialect{Name: name, appendError: appendChatError, promptMember: prompt}
}

// ChatDialect is also used for errors without an endpoint, such as malformed request headers or an
// unknown path. The catalog uses MessagesModelsDialect for Messages clients, and ModelsDialect for all
// other clients.
var (
	ChatDialect   = newChatErrorDialect("chat", "")
	ModelsDialect = newChatErrorDialect("models", "")

	MessagesModelsDialect = &Dialect{
		Name: ModelsDialect.Name, appendError: messagesDialect.appendError, mapError: messages.MapError,
	}
)

// responsesDialect has the same error format as chat, except in a stream. If an engine's error
// refers to the messages member, the client's error refers to input.
var responsesDialect = &Dialect{Name: "responses", appendError: appendChatError, mapError: responses.MapError}

// messagesDialect responds with 529 where other dialects respond with 502, 503 or 504.
var messagesDialect = &Dialect{
	Name: "messages", AnthropicRates: true,
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messages.MapError,
}
