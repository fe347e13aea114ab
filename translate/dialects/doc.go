// Package dialects contains the code that packages messages and responses share. The edge
// translates these two dialects to chat.
//
//	Options         how to translate a request
//	AnswerIdentity  what the edge knows about an answer
//	ChatWriter      writes the chat request
//	ImagePositions  positions of images in the client's body, for errors about them (RelocateError)
//	DroppedParts    what a request loses in translation, as names from a fixed list
//
// A call goes through a dialect like this:
//
//	chatBody, err = request.Decode(chatBody[:0], body, &chatRequest, &stream.RequestInfo, options)
//	err = stream.RequestInfo.RelocateError(chatRequest.CheckRules(rules)) // errors in the client's terms
//	stream.Reset(&identity)
//	out, err = stream.Append(out[:0], event)                 // finally Finish or AppendFailure
//	out, err = stream.AppendCompletion(out[:0], &completion) // or a whole completion
//
// # Design
//
// A translation is a function from bytes to bytes. The client's body is parsed once. Values are
// copied unchanged, including escapes, numbers and the order of members. Schemas, tool call
// arguments and texts therefore reach the engine byte for byte.
//
// The serialized messages of one turn are a byte prefix of the next turn's messages, so that
// engines find them in their prefix cache.
//
// The translated body is decoded like any chat request from a client. All dialects therefore share
// the checks, the limits, the routing and the engine formats. If decoding finds an error,
// RelocateError replaces the member's name with its name in the client's dialect.
package dialects
