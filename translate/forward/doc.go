// Package forward handles the requests that the edge passes on: embeddings, rerank, images and the
// legacy completions. It replaces the model's public name with the engine's name, and counts
// tokens. All other members pass through unread.
//
//	Request    a JSON request: Decode, CheckRules, AppendSegments with the served name spliced in
//	ImageEdit  the fields of a form (images/edits)
//	Answer     a whole JSON answer: the public model spliced in, the usage read
//	Relay      the same in pieces, for an answer too large to be buffered
//	Stream     a streamed answer, event by event (completions, transcriptions, speech)
//
// # Design
//
// The edge checks types and ranges that all engines share (members.go). It does not check members
// that it does not read: unknown members, and members of endpoints for which the contract has no
// rules. The edge rejects a member that it reads if two readers could interpret the member
// differently (see jsonx on duplicates). It rejects members that steer an engine. It rejects media
// that an engine would fetch if chat does not allow their location for images (chat.CheckMedia).
//
// Clients receive embeddings in the format that they requested (vector.go). Some engines do not
// support encoding_format and answer with numbers. SDKs decode these numbers as base64 without an
// error. Rankings always have the same format (rerank.go).
//
// A stream is passed on event by event. As in the chat dialect, it has ended successfully if every
// choice has a finish_reason. [DONE] alone is not enough. A transcription stream has no choices and
// ends with transcript.text.done. Some engines do not mark the end, or return a whole transcript
// even though a stream was requested. The edge compensates for this, so a client that requests a
// stream always receives one. If an engine does not support events for speech, the edge wraps the
// audio in events as it arrives.
package forward
