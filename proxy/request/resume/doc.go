// Package resume has a stream survive its engine: it keeps what a client has been shown of an
// answer, so that another engine can go on with it (models[].retry.resume).
//
// A Stream stands between an attempt and the endpoint's codec. It reads each event for its text
// beside the codec, which costs a stream that may be resumed a second look at each event and all
// others nothing. When the engine is lost or left, Begun is the beginning of the answer for
// chat.Request, and translate.Stream.NextEngine prepares the codec for another engine's events.
//
// # What can be resumed
//
// One answer in words: not several choices, none in a form that is given by a schema or a grammar,
// none whose tokens are told one by one (chat.Request.Continues), and none that has begun to call a
// tool, since no engine can be handed half of a call. Reasoning goes along where the engine reads
// it from the history, behind which text must have begun. The last character is whole: the reader
// holds back what is half.
//
// What is kept counts in limits.body_memory, as the request does that is held with it. Both are let
// go when there is no room, or when half of that memory is taken and new requests will need the
// rest: then the stream cannot be resumed, and nothing else is changed.
package resume
