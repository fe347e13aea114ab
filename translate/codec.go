package translate

import (
	"penstock/translate/apierr"
	"penstock/translate/sse"
)

// Stream translates an engine's events to the client's dialect. It belongs to one call and is not
// safe for concurrent use. The edge calls Append for each event from the engine, and finally
// either Finish or AppendFailure. Every implementation also has a Reset method.
type Stream interface {
	// Append appends the client's events for one engine event. Its errors are *BadAnswerError and
	// *engineerror.Error.
	Append(dst []byte, ev sse.Event) ([]byte, error)
	// Finish appends the end of a successful stream. It returns ErrNoFinish if the engine's stream
	// ended before every choice had a finish reason.
	Finish(dst []byte) ([]byte, error)
	// AppendFailure appends the error event that ends a failed stream.
	AppendFailure(dst []byte, e *apierr.Error) []byte
	// AppendKeepalive appends a keep-alive for a waiting client.
	AppendKeepalive(dst []byte) []byte
	// HasStarted reports whether any part of the answer has been appended. Events that only announce
	// an answer do not count.
	HasStarted() bool
	// PrepareForNextEngine prepares for events from another engine. If the answer has started, the other
	// engine continues it.
	PrepareForNextEngine()
	// IsFinished reports whether every choice has its finish reason, which means that Finish will
	// succeed.
	IsFinished() bool
	// IsDone reports whether the stream needs no more events from the engine. A finished stream that
	// is not done still waits for usage or [DONE]. Some engines never send either, so the caller
	// should not wait long.
	IsDone() bool
	// BufferedBytes returns roughly how many bytes the stream buffers, for the reply memory budget.
	BufferedBytes() int
	// UnparsedMarkup returns the markup word at the start of the answer's text, if any.
	UnparsedMarkup() Markup
	// Usage returns the token counts so far, whether reported by the engine or estimated.
	Usage() Usage
}
