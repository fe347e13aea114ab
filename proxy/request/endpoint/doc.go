// Package endpoint holds the generation endpoints and what differs between them. Package call takes
// the requests of all of them through the same steps and never asks which one it serves.
//
// # Codecs
//
// An Endpoint holds what is the same for all of its calls, and makes a codec for each. codec.go has
// the three interfaces that every kind of endpoint implements:
//
//	Request   decodes the client's request, checks it by the model's rules, writes it for engines
//	Unary     writes the client's answer for an engine's whole reply
//	Stream    writes the client's events for an engine's
//
// The kinds:
//
//	chat.go                                    chat (chatBase)
//	messages.go, responses.go                  translated to chat and back (translatedRequest)
//	json.go, speech.go                         JSON that is passed on (jsonRequest)
//	some_engines.go                            likewise, at engines whose profiles name a path
//	form.go, transcriptions.go                 forms, passed on while they come (formRequest)
//
// A new endpoint is one file with its Endpoint and its codec, and one line in All (endpoint.go).
//
// dialect.go has the shape of each dialect's errors, and response.go the headers of every answer.
//
// # Design
//
// The dialects themselves are packages below translate, which turn bytes into bytes. A codec here
// connects a dialect to a call: to the body's memory, the model's snapshot, the target's engine. It
// knows no attempt and no connection. Of an engine's reply it sees the head (Reply).
//
// If an answer continues at another engine, the underlying request is given what was said
// (Request.Chat, chat.Request.GoOn), and Fill writes it as a chat request, whatever the dialect.
//
// A request in the Messages or the Responses dialect is a chat request from its decoding on, and
// every engine is sent it as one. Only a count of a Messages prompt reads the body that the client
// wrote.
//
// Codecs of chat are pooled. The parts that only the request or only the answer needs have pools of
// their own: a stream may last an hour, and its request is gone after the first event.
package endpoint
