package translate

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Stream turns the events of an engine into those of the client's dialect. It belongs to one call
// and is not safe for concurrent use. Every Stream also has a Reset, with what its dialect needs to
// know of the request. The edge calls Append for each event of the engine, and in the end either
// Finish or Fail.
type Stream interface {
	// Append adds the client's events for one engine event, none or more. Its errors are
	// *BadAnswer and *engineerror.Error.
	Append(dst []byte, ev sse.Event) ([]byte, error)
	// Finish adds what ends the stream well, or fails with ErrNoFinish when the engine ended too
	// early.
	Finish(dst []byte) ([]byte, error)
	// Fail adds the in-band error that ends the stream badly.
	Fail(dst []byte, e *apierr.Error) []byte
	// Keepalive adds a sign of life for a waiting client.
	Keepalive(dst []byte) []byte
	// Started reports whether a piece of the answer itself has been appended: text, a part of a tool
	// call, an end. What only announces an answer is none.
	Started() bool
	// NextEngine prepares for the events of another engine, which goes on with an answer that has
	// started, and otherwise begins. What has been announced stays so, and is not announced again.
	NextEngine()
	// Finished reports whether every choice has its finish reason, so that Finish will succeed.
	Finished() bool
	// Done reports whether nothing more is wanted from the engine. A finished stream that is not
	// done waits for usage or [DONE], which some engines never send: do not wait long.
	Done() bool
	// Held returns about how many bytes the stream keeps, for the memory budget of replies.
	Held() int
	// Markup returns the word of a model's markup that the answer's text begins with.
	Markup() Markup
	// Usage returns the token counts so far: the engine's, or an estimate.
	Usage() Usage
}
