package chat

import (
	"errors"
	"strconv"

	"penstock/translate/jsonx"
)

// Limits of an answer. Beyond them it is a *BadAnswer with the reason TooLarge.
const (
	MaxAnswer  = 32 << 20 // bytes of a whole completion, as it comes or as it is assembled
	MaxChoices = 128      // choices of one answer
)

// recordDepth is the depth down to which answers are indexed: choices, choice, message, tool_calls,
// tool call, function.
const recordDepth = 7

// ErrNoFinish means that a stream ended although a choice has no finish_reason. Neither [DONE] nor
// a properly ended body makes such a stream whole: Ollama ends like this, without any error, when
// its runner dies.
var ErrNoFinish = errors.New("read chat stream: ended without a finish_reason in every choice")

// The reasons of a BadAnswer, a closed set of our own texts; one for invalid JSON is followed by
// what and where.
const (
	TooLarge         = "too large"
	badJSON          = "invalid JSON"
	notObject        = "not a JSON object"
	duplicateMember  = "a member is given twice"
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

// BadAnswer is the error for an engine's answer, or an event of its stream, that breaks the chat
// dialect. Reason is one of a closed set of our own texts and never quotes the answer, so it may be
// logged.
type BadAnswer struct {
	Reason string
	Cause  error // the *EngineError that stood in place of a completion, or nil
	// ByModel: the engine did its part and the model erred, as in a tool call with malformed
	// arguments.
	ByModel bool
}

func (e *BadAnswer) Error() string { return "read chat answer: " + e.Reason }

// Unwrap returns the cause, so that errors.As finds an *EngineError.
func (e *BadAnswer) Unwrap() error { return e.Cause }

func badAnswer(reason string) error { return &BadAnswer{Reason: reason} }

// badSyntax is the error for an answer that jsonx did not accept.
func badSyntax(err error) error {
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) {
		return badAnswer(badJSON + ": " + syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset))
	}
	return badAnswer(TooLarge) // a *jsonx.LimitError
}
