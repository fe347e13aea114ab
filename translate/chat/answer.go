package chat

import (
	"errors"
	"strconv"

	"penstock/translate/jsonx"
)

// Bounds of what an engine may answer. More is a *BadAnswer with the reason TooLarge.
const (
	MaxAnswer  = 32 << 20 // bytes of a whole completion, as it comes or as it is assembled
	MaxChoices = 128      // choices of one answer
)

// record is the depth down to which answers are indexed: choices, choice, message, tool_calls, tool
// call, function.
const record = 7

// ErrNoFinish: the stream ended although a choice has no finish_reason. Neither [DONE] nor a
// properly ended body makes such a stream whole: Ollama ends like this, without any error, when its
// runner dies.
var ErrNoFinish = errors.New("read chat stream: ended without a finish_reason in every choice")

// AnswerOptions are the options of one answer for the client. The proxy fills them from the request
// and the route; this package only reads them. The zero value leaves out all optional parts.
type AnswerOptions struct {
	// Model is the public model id: it replaces the engine's own name in the answer and in every
	// chunk.
	Model string
	// ID and Created (Unix seconds) are used where the engine gave none.
	ID      string
	Created int64
	// N is the number of choices that the client asked for, 0 when unknown. A stream that breaks
	// off before that many were seen is not whole; one that the engine ended with [DONE] is, as
	// some engines ignore n.
	N int
	// PromptTokens is our estimate of the prompt, for an engine that counts nothing.
	PromptTokens int
	// IncludeUsage: the client asked for the usage chunk of a stream. Whole completions always keep
	// their usage.
	IncludeUsage bool
	// ContinuousUsage: it asked for usage in every chunk, too, and gets the engine's.
	ContinuousUsage bool
	// StripReasoning removes reasoning, reasoning_content and reasoning_details (include_reasoning:
	// false).
	StripReasoning bool
}

// The reasons of a BadAnswer, a closed set of our own texts; one for invalid JSON is followed by
// what and where.
const (
	TooLarge         = "too large"
	badJSON          = "invalid JSON"
	notObject        = "not a JSON object"
	twice            = "a member is given twice"
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

// BadAnswer says that an engine's answer, or an event of its stream, breaks the chat dialect.
// Reason is one of a closed set of our own texts and never quotes the answer, so it may be logged.
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

func bad(reason string) error { return &BadAnswer{Reason: reason} }

// badSyntax is the error for what jsonx did not accept.
func badSyntax(err error) error {
	var syntax *jsonx.SyntaxError
	if errors.As(err, &syntax) {
		return bad(badJSON + ": " + syntax.Reason + " at byte " + strconv.Itoa(syntax.Offset))
	}
	return bad(TooLarge) // a *jsonx.LimitError
}
