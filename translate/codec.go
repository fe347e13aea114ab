package translate

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Stream turns an engine's events into those of the client's dialect. It belongs to one call and is
// not safe for concurrent use. Every Stream also has a Reset, which takes what its dialect needs to
// know about the request. The edge calls Append for each event of the engine, and finally either
// Finish or Fail.
type Stream interface {
	// Append adds the client's events for one engine event; there may be none. Its errors are
	// *BadAnswer and *engineerror.Error.
	Append(dst []byte, ev sse.Event) ([]byte, error)
	// Finish adds the successful end of the stream, or fails with ErrNoFinish when the engine ended
	// too early.
	Finish(dst []byte) ([]byte, error)
	// Fail adds the in-band error that ends a failed stream.
	Fail(dst []byte, e *apierr.Error) []byte
	// Keepalive adds a sign of life for a waiting client.
	Keepalive(dst []byte) []byte
	// Started reports whether part of the answer itself has been appended: text, part of a tool
	// call, an end. An announcement of an answer does not count.
	Started() bool
	// NextEngine prepares for the events of another engine, which continues an answer that has
	// started, and otherwise begins one. Announcements are not repeated.
	NextEngine()
	// Finished reports whether every choice has its finish reason, so that Finish will succeed.
	Finished() bool
	// Done reports whether the stream needs nothing more from the engine. A finished stream that is
	// not done waits for usage or [DONE], which some engines never send: do not wait long.
	Done() bool
	// Held returns the approximate number of bytes that the stream keeps, for the memory budget of
	// replies.
	Held() int
	// Markup returns the kind of markup that the answer's text begins with.
	Markup() Markup
	// Usage returns the token counts so far: the engine's, or an estimate.
	Usage() Usage
}
