package endpoint

import (
	"penstock/translate/apierr"
	"penstock/translate/messages"
	"penstock/translate/responses"
)

// Dialect says how an endpoint reports errors: their shape, and the status for an engine's failure.
type Dialect struct {
	Name string // the name in metrics and log
	// AnthropicRates adds Anthropic's headers that report the state of the key's limits.
	AnthropicRates bool

	// appendError renders e for a client of this dialect.
	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError maps an upstream's failure to this dialect's statuses; nil: unchanged.
	mapError func(e *apierr.Error) *apierr.Error
	// prompt is the member that an error names if the prompt is too long for the engine. If it is
	// empty, mapError names the member; without a mapError the member is messages.
	prompt string
}

// ErrorOf returns e as this dialect's clients see it.
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

// AppendError appends an error that ErrorOf returned, as a response body.
func (d *Dialect) AppendError(dst []byte, e *apierr.Error, requestID string) []byte {
	return d.appendError(dst, e, requestID)
}

func chatError(dst []byte, e *apierr.Error, _ string) []byte { return e.Append(dst) }

// withChatErrors makes a dialect whose errors have the same shape as chat's.
func withChatErrors(name, prompt string) *Dialect {
	return &Dialect{Name: name, appendError: chatError, prompt: prompt}
}

// ChatDialect is also used for errors that belong to no endpoint, such as an unreadable head or an
// unknown path. ModelsDialect is the catalog's dialect. ModelsForMessages is the catalog's dialect
// for Messages clients.
var (
	ChatDialect   = withChatErrors("chat", "")
	ModelsDialect = withChatErrors("models", "")

	ModelsForMessages = &Dialect{
		Name: ModelsDialect.Name, appendError: messagesDialect.appendError, mapError: messages.MapError,
	}
)

// responsesDialect has errors of the same shape as chat's, except in a stream. An engine's
// complaint about messages becomes a complaint about input.
var responsesDialect = &Dialect{Name: "responses", appendError: chatError, mapError: responses.MapError}

// messagesDialect answers 529 where the other dialects answer 502, 503 or 504.
var messagesDialect = &Dialect{
	Name: "messages", AnthropicRates: true,
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messages.MapError,
}
