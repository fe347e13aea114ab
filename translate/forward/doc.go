// Package forward is the edge's part in requests that it passes on: embeddings, rerank, images and
// the legacy completions. It reads the model's name, hides the engine's own name for it, and counts
// tokens; everything else is between client and engine.
//
//	Request   a JSON request: Decode, Check, Segments with the served name spliced in
//	Edit      the fields of a form (images/edits)
//	Answer    a whole JSON answer: the public model spliced in, the usage read
//	Relay     one that is too large to be held, in pieces: the same
//	Stream    a streamed answer, event by event (completions, transcriptions, speech)
//
// Bytes in, bytes out; nothing here knows HTTP.
//
// # Design
//
// Types and ranges that all engines share are checked (members.go). What is not read is not
// checked: unknown members, and the known ones of endpoints whose rules the contract does not give,
// go to the engine as they came, and its complaint comes back. What is read is refused when two
// readers could take it for two things (see jsonx on duplicates), and so are members that steer an
// engine, and media that it would fetch from where chat takes no images from (chat.CheckMedia). A
// completion's token limit is held to the model's.
//
// Embeddings reach the client in the form that it asked for (vector.go). Several engines do not know
// encoding_format and answer with numbers, and SDKs read those as base64 without an error.
// Rankings have one form, too (rerank.go).
//
// A stream is passed on event for event, under the rule of the chat dialect: it has ended well when
// every choice has its finish_reason, and [DONE] alone is no end. A transcription's stream has
// events instead of choices; its end is transcript.text.done. Engines that mark no end, or that
// give the transcript as a whole although a stream was asked for, get the marks from here: a client
// that asks for a stream has one, whichever engine serves it. Speech whose engine has no events is
// put into them as it comes, base64 in pieces that neither cut a sample nor need padding.
package forward
