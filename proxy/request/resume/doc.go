// Package resume lets a stream survive the loss of its engine. It keeps what the client has
// received of the answer, so that another engine can continue the answer (models[].retry.resume).
//
// A Stream stands between an attempt and the endpoint's codec. Like the codec, it parses the text
// of each event. So each event of a stream that may be resumed is read twice; other streams pay
// nothing. When the call loses or leaves the engine, Begun returns the beginning of the answer for
// chat.Request, and translate.Stream.NextEngine prepares the codec for another engine's events.
//
// # What can be resumed
//
// Only a single answer in plain text can be resumed. An answer cannot be resumed if it has several
// choices, if a schema or a grammar constrains it, or if its tokens are reported one by one
// (chat.Request.Continues). Nor can it be resumed once it has begun to call a tool, because no
// engine accepts half of a tool call. Reasoning is sent along if the engine reads it from the
// history, but only once text has begun after it. The last character is always complete, because
// the reader holds back an incomplete one.
//
// The kept text counts against limits.body_memory, like the request that is held beside it. Both
// are released if the memory is full or more than half of it is taken, because new requests need
// the rest. The stream can then no longer be resumed; nothing else changes.
package resume
