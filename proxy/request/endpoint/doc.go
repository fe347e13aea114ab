// Package endpoint defines the generation endpoints and how they differ. Package call handles the
// requests of all endpoints in the same steps.
//
// # Codecs
//
// An Endpoint is shared by all its calls, and creates a codec for each call. codec.go defines the
// three interfaces that every kind of endpoint implements:
//
//	Request   decodes the client's request, checks it against the model's rules, writes it for engines
//	Unary     writes the client's answer from an engine's whole reply
//	Stream    writes the client's events from the engine's events
//
// The kinds of codecs:
//
//	chat.go                                    chat (chatBase)
//	messages.go, responses.go                  translated to chat and back (translatedRequest)
//	json.go, speech.go                         JSON that is forwarded (jsonRequest)
//	some_engines.go                            likewise, for engines whose profiles name a path
//	form.go, transcriptions.go                 forms, forwarded while they arrive (formRequest)
//
// To add an endpoint, add one file with its Endpoint and its codec, and one line to All
// (endpoint.go).
//
// # Design
//
// The dialects are packages below translate, which convert bytes to bytes. A codec connects a
// dialect to a call: to the body's memory, the model's snapshot and the target's engine. It does
// not depend on attempts or connections. Of an engine's response it sees only the headers (Reply).
//
// If another engine continues an answer, the text so far is added to the chat request
// (Request.Chat, chat.Request.GoOn). In every dialect, Fill then writes this chat request.
//
// A request in the Messages or the Responses dialect is decoded into a chat request, and every
// engine receives a chat request. Only the token count of a Messages prompt uses the client's
// original body.
//
// Chat codecs are pooled. Memory for the request and memory for the answer are pooled separately,
// because a stream may last an hour but its request is released after the first event.
package endpoint
