package translate

import "errors"

// Limits for an answer. A larger answer is a *BadAnswer with the reason TooLarge.
const (
	MaxAnswer  = 32 << 20 // bytes of a whole completion, received or assembled
	MaxChoices = 128      // choices of one answer
)

// ErrNoLength is the error for a binary answer that ends with its connection. The edge cannot tell
// whether such an answer is complete: half an audio file looks like a whole one.
var ErrNoLength = errors.New("an answer without its length")

// ErrNoFinish means that a stream ended before every choice had a finish_reason. Neither [DONE] nor
// a properly ended body makes such a stream complete: Ollama's stream ends like this, without any
// error, when its runner dies.
var ErrNoFinish = errors.New("read chat stream: ended without a finish_reason in every choice")

// Reasons that several dialects give in a BadAnswer.
const (
	TooLarge        = "too large"
	BadJSON         = "invalid JSON"
	NotObject       = "not a JSON object"
	DuplicateMember = "a member is given twice"
)

// BadAnswer is the error for an engine's answer, or an event in a stream, that breaks the engine's
// dialect. Reason comes from a closed set of the edge's own texts and never quotes the answer, so
// it may be logged.
type BadAnswer struct {
	Reason string
	Cause  error // the error that the engine sent instead of a completion, or nil
	// ByModel is true if the model is at fault and not the engine, for example after a tool call
	// with malformed arguments.
	ByModel bool
}

func (e *BadAnswer) Error() string { return "read chat answer: " + e.Reason }

// Unwrap returns the cause, so that errors.As finds the engine's error.
func (e *BadAnswer) Unwrap() error { return e.Cause }
