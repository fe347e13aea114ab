// Package translate contains the types that the dialects share. Each dialect is a subpackage: chat,
// messages, responses, audio and forward. A dialect converts bytes to bytes. The edge chooses a
// dialect by endpoint and uses it through the interfaces in codec.go:
//
//	chat       answer.Stream
//	messages   messages.Stream
//	responses  responses.Stream
//	audio      forward.Stream, as the engine sends it
//	forward    forward.Stream, as the engine sends it
//
// The edge speaks chat to engines, whatever the client's dialect is. A single package therefore
// reads usage, tool calls, finish reasons and errors, and all clients see the same tool calls.
//
// A Stream may receive events from more than one engine. If the answer has not started yet, the
// next engine starts over. Otherwise, the next engine continues the answer, and the ids, numbers
// and open blocks already written by the Stream stay valid.
package translate
