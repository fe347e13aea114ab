// Package resume lets a stream survive the loss of its engine. It keeps what the client has
// received of the answer, so that another engine can continue the answer (models[].retry.resume).
//
// A Stream stands between an attempt and the endpoint's codec. Like the codec, it parses the text
// of each event. So each event of a resumable stream is parsed twice; other streams incur no extra
// cost. When the call loses or leaves the engine, Begun returns the partial answer for
// chat.Request, and translate.Stream.NextEngine prepares the codec for another engine's events.
//
// # What can be resumed
//
// Only a single answer in plain text can be resumed. An answer cannot be resumed if it has several
// choices, if a schema or a grammar constrains it, or if its tokens are reported one by one
// (chat.Request.Continues). Nor can it be resumed once it has begun to call a tool, because no
// engine accepts half of a tool call. Reasoning is sent to the next engine if that engine reads
// reasoning from the history, but only once text has followed the reasoning. The last character is
// always complete, because the reader holds back an incomplete one.
//
// The kept text and the request held beside it both count against limits.body_memory. If that
// memory is full or more than half used, both are released to leave room for new requests. The
// stream can then no longer be resumed, but otherwise continues unchanged.
package resume
