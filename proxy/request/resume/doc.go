// Package resume lets a stream survive the loss of its engine. It keeps what a client has been
// shown of an answer, so that another engine can continue the answer (models[].retry.resume).
//
// A Stream stands between an attempt and the endpoint's codec. It reads the text of each event in
// addition to the codec. A stream that may be resumed thus has each event read twice; other
// streams pay nothing. When the call loses or leaves the engine, Begun returns the beginning of
// the answer for chat.Request, and translate.Stream.NextEngine prepares the codec for another
// engine's events.
//
// # What can be resumed
//
// Only a single answer in plain text can be resumed. An answer cannot be resumed if it has several
// choices, if a schema or a grammar constrains it, or if its tokens are reported one by one
// (chat.Request.Continues). It cannot be resumed either once it has begun to call a tool, because
// no engine accepts half of a tool call. Reasoning is sent along if the engine reads it from the
// history, but only once text has begun after it. The last character is always complete, because
// the reader holds back an incomplete one.
//
// The kept text counts against limits.body_memory, like the request that is held with it. Both are
// released when there is no room, or when half of that memory is taken, because new requests will
// need the rest. The stream can then no longer be resumed; nothing else changes.
package resume
