// Package forward handles the requests that the edge passes on: embeddings, rerank, images and the
// legacy completions. It reads the model's name, hides the engine's own name for the model, and
// counts tokens. Everything else is left to the client and the engine.
//
//	Request   a JSON request: Decode, Check, Segments with the served name spliced in
//	Edit      the fields of a form (images/edits)
//	Answer    a whole JSON answer: the public model spliced in, the usage read
//	Relay     likewise in pieces, for an answer that is too large to be held
//	Stream    a streamed answer, event by event (completions, transcriptions, speech)
//
// The package turns bytes into bytes and knows nothing about HTTP.
//
// # Design
//
// Types and ranges that all engines share are checked (members.go). Members that are not read are
// not checked: unknown members, and members of endpoints for which the contract has no rules, are
// passed on unchanged, and the client gets the engine's error. A member that is read is refused if
// two readers could read it differently (see jsonx on duplicates). Members that steer an engine are
// also refused, and so are media that an engine would fetch from a place that chat does not allow
// for images (chat.CheckMedia). A completion's token limit is lowered to the model's.
//
// Embeddings reach the client in the format that it requested (vector.go). Several engines do not
// support encoding_format and answer with numbers, which SDKs read as base64 without an error.
// Rankings always reach the client in the same format (rerank.go).
//
// A stream is passed on event by event. As in the chat dialect, it has ended successfully if every
// choice has its finish_reason. [DONE] by itself is not an end. The stream of a transcription has
// events instead of choices, and ends with transcript.text.done. Some engines do not mark the end,
// or return the whole transcript although a stream was requested. The edge compensates for this, so
// a client that asks for a stream gets one from any engine. If an engine has no events for speech,
// the edge wraps the audio in events as it arrives. The events contain base64 in pieces that
// neither split a sample nor need padding.
package forward
