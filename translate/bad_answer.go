package translate

import "errors"

// Limits for an answer. If an answer exceeds one of them, the error is a *BadAnswerError with the
// reason ReasonTooLarge.
const (
	MaxAnswerBytes = 32 << 20 // bytes of a whole completion, received or assembled
	MaxChoices     = 128
)

// ErrNoAnswerLength is the error for a binary answer that has no length and ends only when the
// connection closes. It may be incomplete, and half an audio file looks like a whole one.
var ErrNoAnswerLength = errors.New("an answer without its length")

// ErrNoFinish means that a stream ended before every choice had a finish_reason. If Ollama's runner
// dies, the stream ends without a finish_reason and without an error.
var ErrNoFinish = errors.New("read chat stream: ended without a finish_reason in every choice")

// Reasons for a BadAnswerError that more than one dialect uses.
const (
	ReasonTooLarge        = "too large"
	ReasonBadJSON         = "invalid JSON"
	ReasonNotObject       = "not a JSON object"
	ReasonDuplicateMember = "a member is given twice"
)

// BadAnswerError is the error for an engine's response, or a stream event, that violates the
// engine's dialect. Reason never quotes the response, so it may be logged.
type BadAnswerError struct {
	Reason string
	Cause  error // the error that the engine sent instead of a completion, or nil
	// ByModel is true if the model is at fault. For example, the model wrote a tool call with
	// malformed arguments.
	ByModel bool
}

func (e *BadAnswerError) Error() string { return "read chat answer: " + e.Reason }

// Unwrap returns the cause.
func (e *BadAnswerError) Unwrap() error { return e.Cause }
