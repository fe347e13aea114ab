package answer

import (
	"errors"
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// indexedDepth is the depth to which answers are indexed: choices, choice, message, tool_calls,
// tool call, function.
const indexedDepth = 7

// The reasons for a BadAnswerError are fixed texts. The reason for invalid JSON also contains the
// parser's reason and position.
const (
	reasonNoChoices        = "no choices"
	reasonBadChoice        = "a choice is not an object with a valid index"
	reasonNoMessage        = "a choice without a message"
	reasonNoDelta          = "a choice without a delta"
	reasonNotFinished      = "a choice whose finish_reason is null"
	reasonTooManyChoices   = "too many choices"
	reasonTooManyToolCalls = "too many tool calls"
	reasonNotText          = "a text that is no string"
	reasonBadToolCall      = "a malformed tool call"
	reasonEngineError      = "an error in place of a completion"
)

func newBadAnswer(reason string) error { return &translate.BadAnswerError{Reason: reason} }

func newBadSyntaxError(err error) error {
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) {
		return newBadAnswer(translate.ReasonBadJSON + ": " + syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset))
	}
	return newBadAnswer(translate.ReasonTooLarge) // the error is a *jsonx.LimitError
}
