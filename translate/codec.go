package translate

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Stream turns an engine's events into events of the client's dialect. A Stream belongs to one call
// and is not safe for concurrent use. Every Stream also has a Reset, whose arguments are what its
// dialect needs to know about the request. The edge calls Append for each event from the engine,
// and finally either Finish or Fail.
type Stream interface {
	// Append adds the client's events, if any, for one engine event. Its errors are *BadAnswer and
	// *engineerror.Error.
	Append(dst []byte, ev sse.Event) ([]byte, error)
	// Finish adds the successful end of the stream, or returns ErrNoFinish if the engine ended too
	// early.
	Finish(dst []byte) ([]byte, error)
	// Fail adds the in-band error that ends a failed stream.
	Fail(dst []byte, e *apierr.Error) []byte
	// Keepalive adds a keep-alive for a waiting client.
	Keepalive(dst []byte) []byte
	// Started reports whether any of the answer itself has been appended: text, the start of a tool
	// call, or an end. The announcement of an answer does not count.
	Started() bool
	// NextEngine prepares for events from another engine. That engine continues the answer if the
	// answer has started, and otherwise starts one. Announcements are not repeated.
	NextEngine()
	// Finished reports whether every choice has its finish reason, so that Finish will succeed.
	Finished() bool
	// Done reports whether the stream needs nothing more from the engine. A finished stream that is
	// not done waits for usage or [DONE]. Some engines never send these, so the caller should not
	// wait long.
	Done() bool
	// Held returns roughly how many bytes the stream keeps, for the reply memory budget.
	Held() int
	// Markup returns the kind of markup with which the answer's text starts.
	Markup() Markup
	// Usage returns the token counts so far, from the engine or estimated.
	Usage() Usage
}
