// Package endpoint defines the generation endpoints and how they differ. Package call handles the
// requests of all endpoints in the same steps.
//
// # Codecs
//
// All calls to an Endpoint share it, and it creates a codec for each call. codec.go defines the
// three interfaces that every kind of endpoint implements:
//
//	Request   decodes the client's request, checks it against the model's rules, writes it for engines
//	Unary     writes the client's answer from an engine's whole reply
//	Stream    writes the client's events from the engine's events
//
// There are these kinds of codecs:
//
//	chat.go                                    chat (chatBase)
//	messages.go, responses.go                  translated to chat and back (translatedRequest)
//	json.go, speech.go                         JSON that is forwarded (jsonRequest)
//	engine_specific.go                         likewise, for engines whose profiles name a path
//	form.go, transcriptions.go                 forms, forwarded while they arrive (formRequest)
//
// To add an endpoint, add one file that contains its Endpoint and its codec, and one line in
// AllEndpoints (endpoint.go).
//
// # Design
//
// Each dialect is a package below translate that converts bytes to bytes. A codec connects a
// dialect to a call: to the memory for the body, the model's snapshot and the target's engine. A
// codec does not depend on attempts or connections. It can read only the headers of an engine's
// response (ReplyHead).
//
// If another engine continues an answer, the text received so far is added to the chat request
// (Request.Chat, resume.PartialAnswerRecorder.AddToRequest). In every dialect, EncodeRequest then writes this chat
// request.
//
// A request in the Messages or the Responses dialect is decoded into a chat request, and every
// engine receives a chat request. The client's original body is used only to count the tokens of a
// Messages prompt.
//
// Chat codecs are pooled. The memory for the request and the memory for the answer are pooled
// separately. A stream may last an hour, but its request is released after the first event.
package endpoint
