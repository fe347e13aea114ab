package answer

import (
	"errors"
	"strconv"

	"penstock/translate"
	"penstock/translate/jsonx"
)

// recordDepth is the depth to which answers are indexed: choices, choice, message, tool_calls, tool
// call, function.
const recordDepth = 7

// The reasons for a BadAnswer are fixed texts. The reason for invalid JSON also contains the
// parser's reason and position.
const (
	noChoices        = "no choices"
	badChoice        = "a choice is not an object with a valid index"
	noMessage        = "a choice without a message"
	noDelta          = "a choice without a delta"
	notFinished      = "a choice whose finish_reason is null"
	tooManyChoices   = "too many choices"
	tooManyToolCalls = "too many tool calls"
	notText          = "a text that is no string"
	badToolCall      = "a malformed tool call"
	engineError      = "an error in place of a completion"
)

func badAnswer(reason string) error { return &translate.BadAnswer{Reason: reason} }

func badSyntax(err error) error {
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) {
		return badAnswer(translate.BadJSON + ": " + syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset))
	}
	return badAnswer(translate.TooLarge) // the error is a *jsonx.LimitError
}
