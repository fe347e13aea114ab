package translate

import "errors"

// Limits of an answer. Beyond them it is a *BadAnswer with the reason TooLarge.
const (
	MaxAnswer  = 32 << 20 // bytes of a whole completion, as it comes or as it is assembled
	MaxChoices = 128      // choices of one answer
)

// ErrNoLength is the error of an answer of bytes that ends with its connection. Whether it is whole
// is not known: half of an audio file cannot be told from a whole one.
var ErrNoLength = errors.New("an answer without its length")

// ErrNoFinish means that a stream ended although a choice has no finish_reason. Neither [DONE] nor
// a properly ended body makes such a stream whole: Ollama ends like this, without any error, when
// its runner dies.
var ErrNoFinish = errors.New("read chat stream: ended without a finish_reason in every choice")

// The reasons of a BadAnswer that several dialects have.
const (
	TooLarge        = "too large"
	BadJSON         = "invalid JSON"
	NotObject       = "not a JSON object"
	DuplicateMember = "a member is given twice"
)

// BadAnswer is the error for an engine's answer, or an event of its stream, that breaks its
// dialect. Reason is one of a closed set of our own texts and never quotes the answer, so it may be
// logged.
type BadAnswer struct {
	Reason string
	Cause  error // the engine's error that stood in place of a completion, or nil
	// ByModel: the engine did its part and the model erred, as in a tool call with malformed
	// arguments.
	ByModel bool
}

func (e *BadAnswer) Error() string { return "read chat answer: " + e.Reason }

// Unwrap returns the cause, so that errors.As finds the engine's error.
func (e *BadAnswer) Unwrap() error { return e.Cause }
