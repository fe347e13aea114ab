// Package dialects holds the code that is shared by the dialects that are translated to chat. These
// are Messages and Responses, which have packages of their own.
//
//	Options     how to translate a request
//	Identity    what the edge knows about an answer
//	ChatWriter  writes the chat request
//	Images      positions of its images in the client's body, for errors about them (Locate)
//	Dropped     what a request loses in translation, as names from a fixed list
//
// A call goes through a dialect like this:
//
//	chatBody, err = request.Decode(chatBody[:0], body, &chatRequest, &stream.RequestInfo, options)
//	err = stream.RequestInfo.Locate(chatRequest.Check(rules)) // errors in the client's words
//	stream.Reset(&identity)
//	out, err = stream.Append(out[:0], event)            // engine's events, then Finish or Fail
//	out, err = stream.AppendWhole(out[:0], &completion) // or a whole completion
//
// # Design
//
// Both packages contain the same types and files: Request (request.go, and conversation.go,
// tools.go, input.go for its parts), RequestInfo, Stream (stream.go, events.go, response.go), and
// errors.go. A third such dialect would have them as well.
//
// A translation is a function from bytes to bytes. It depends on neither HTTP nor files nor the
// clock. The client's body is parsed once. Values are copied unchanged, including escapes, numbers
// and the order of members. A schema, a tool call's arguments and a text thus reach the engine byte
// for byte.
//
// The serialized messages of one turn are a byte prefix of the next turn's, so that engines find
// them in their prefix cache.
//
// The translated body is decoded like any client's chat request, so all dialects share the checks,
// the limits, the routing and the engines' formats. An error that only this decoding finds is
// reported under the member's name in the client's dialect.
package dialects
