// Package endpoint defines the generation endpoints and what differs between them. Package call
// handles the requests of all endpoints in the same steps, without knowing which endpoint it
// serves.
//
// # Codecs
//
// An Endpoint holds what all its calls share, and makes a codec for each call. codec.go defines the
// three interfaces that every kind of endpoint implements:
//
//	Request   decodes the client's request, checks it by the model's rules, writes it for engines
//	Unary     writes the client's answer from an engine's whole reply
//	Stream    writes the client's events from the engine's events
//
// The kinds of codecs:
//
//	chat.go                                    chat (chatBase)
//	messages.go, responses.go                  translated to chat and back (translatedRequest)
//	json.go, speech.go                         JSON that is passed on (jsonRequest)
//	some_engines.go                            likewise, for engines whose profiles name a path
//	form.go, transcriptions.go                 forms, passed on while they arrive (formRequest)
//
// A new endpoint takes one file with its Endpoint and its codec, and one line in All
// (endpoint.go).
//
// dialect.go defines the shape of each dialect's errors. response.go defines the headers common to
// all answers.
//
// # Design
//
// The dialects themselves are packages below translate, which turn bytes into bytes. A codec
// connects a dialect to a call: to the body's memory, the model's snapshot and the target's engine.
// It depends on neither attempts nor connections, and sees only the head of an engine's reply
// (Reply).
//
// If an answer continues at another engine, the underlying chat request receives the text so far
// (Request.Chat, chat.Request.GoOn). Fill then writes it as a chat request, whatever the dialect.
//
// A request in the Messages or the Responses dialect is a chat request once it is decoded, and
// every engine receives it as one. Only the token count of a Messages prompt uses the body that the
// client wrote.
//
// Chat codecs are pooled. Memory that only the request or only the answer needs is pooled
// separately, because a stream may last an hour but its request is released after the first event.
package endpoint
