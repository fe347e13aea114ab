// Package resume lets a stream survive its engine. It keeps what a client has been shown of an
// answer, so that another engine can continue it (models[].retry.resume).
//
// A Stream stands between an attempt and the endpoint's codec. It reads each event's text beside
// the codec. This costs a stream that may be resumed a second look at each event, and other streams
// nothing. When the engine is lost or left, Begun returns the beginning of the answer for
// chat.Request, and translate.Stream.NextEngine prepares the codec for another engine's events.
//
// # What can be resumed
//
// Only a single answer in words can be resumed. An answer cannot be resumed if it has several
// choices, if a schema or a grammar gives its form, if its tokens are reported one by one
// (chat.Request.Continues), or if it has begun to call a tool, since no engine accepts half of a
// call. Reasoning is sent along if the engine reads it from the history; text must have begun after
// it. The last character is whole: the reader holds back an incomplete one.
//
// What is kept counts in limits.body_memory, as does the request that is held with it. Both are
// released when there is no room, or when half of that memory is taken and new requests will need
// the rest. Then the stream cannot be resumed; nothing else changes.
package resume
