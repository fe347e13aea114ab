package endpoint

import (
	"penstock/translate/apierr"
	"penstock/translate/messages"
	"penstock/translate/responses"
)

// Dialect says how an endpoint reports errors: their shape, and what its contract calls an engine's
// failure.
type Dialect struct {
	Name string // the name in metrics and log
	// AnthropicRates says that clients read the levels of their limits in Anthropic's headers, too.
	AnthropicRates bool

	// appendError renders e for a client of this dialect.
	appendError func(dst []byte, e *apierr.Error, requestID string) []byte
	// mapError returns an upstream's failure in this dialect's statuses; nil: unchanged.
	mapError func(e *apierr.Error) *apierr.Error
	// prompt is the member that an error names if the prompt is too long for the engine; empty:
	// messages, or mapError's choice.
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

// AppendError appends what ErrorOf returned as a response body.
func (d *Dialect) AppendError(dst []byte, e *apierr.Error, requestID string) []byte {
	return d.appendError(dst, e, requestID)
}

func chatError(dst []byte, e *apierr.Error, _ string) []byte { return e.Append(dst) }

// withChatErrors makes a dialect whose errors have the shape of chat's.
func withChatErrors(name, prompt string) *Dialect {
	return &Dialect{Name: name, appendError: chatError, prompt: prompt}
}

// ChatDialect is also the shape of errors that belong to no endpoint: a head that did not parse, an
// unknown path. ModelsDialect is the catalog's, and ModelsForMessages the catalog's for clients of
// Messages.
var (
	ChatDialect   = withChatErrors("chat", "")
	ModelsDialect = withChatErrors("models", "")

	ModelsForMessages = &Dialect{
		Name: ModelsDialect.Name, appendError: messagesDialect.appendError, mapError: messages.MapError,
	}
)

// responsesDialect has the shape of chat's errors outside of a stream. An engine's complaint about
// messages becomes one about input.
var responsesDialect = &Dialect{Name: "responses", appendError: chatError, mapError: responses.MapError}

// messagesDialect answers 529 where the others have 502, 503 and 504.
var messagesDialect = &Dialect{
	Name: "messages", AnthropicRates: true,
	appendError: func(dst []byte, e *apierr.Error, requestID string) []byte { return e.AppendMessages(dst, requestID) },
	mapError:    messages.MapError,
}
