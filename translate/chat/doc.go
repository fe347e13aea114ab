// Package chat is the request of the chat-completions dialect: the one that clients speak, that
// engines speak, and that the other dialects are translated to and from. It turns bytes into bytes
// and knows neither HTTP nor files nor the clock.
//
// # Requests
//
// A body is scanned once by jsonx, which checks it and notes where its values lie. Decode then
// walks over those notes and holds the body to the contract's chat table; Check adds what depends
// on the model; AppendUpstream, or Segments for a vectored write, gives the engine the client's own
// bytes with the few members changed that must be:
//
//	var r chat.Request // pooled
//	err := r.Decode(body)
//	err = r.Check(rules) // after the model has been looked up
//	segments, scratch = r.Segments(segments[:0], scratch[:0], format)
//	r.Reset()
//
// Answers are read and written by package answer, which knows nothing of requests.
//
// # Design
//
// Nothing is decoded into structures. A proxy that unmarshals and marshals again loses members that
// it does not know and changes numbers, escapes and the order of keys; a changed byte in messages
// costs the engine its prefix cache. So the elements of messages are never written anew, and a test
// compares everything that may not change byte by byte.
//
// A Request is made of parts, each of which decodes, checks and patches its own members: Prompt,
// TokenLimit, Reasoning and ToolUse. Paths in errors are made of indexes and of our own names, and
// the sentences are ours: errors are logged, and bodies are not.
//
// What the edge decides upon must be unambiguous. Of two equal member names some readers take the
// first and some the last, and Go's decoder ignores case, so a member that is read here is refused
// when it occurs twice or in another case, at every level. Members that are not read pass as they
// are, except those that steer an engine, and at a hosted one those that cost or keep (Hosted of
// RefusedMembers).
//
// An optional member that is null counts as absent, because SDKs send null for what was not set. An
// integer may be written 1.0 or 1e2; engines get it in digits.
//
// A prompt's length is not measured, because only the engine has the vocabulary, and no request is
// refused for it. A token limit that is too high is lowered, unless the edge is strict
// (token_limit.go).
//
// Members that cost an engine far more than a client are bounded by one table for all dialects
// (bounds.go), and schemas as a whole (schema_bounds.go).
//
// Nothing is fetched. An https URL of an image is checked for what could lead an engine astray:
// addresses in any spelling, localhost, user names, anything that two parsers could read
// differently. Of a data URL the alphabet is checked, the kind sniffed and the size read from the
// image's header, within its first MiB; the pixels are never decoded. Audio, video and files are
// taken where the model's entry names them, and not looked into (parts.go).
//
// reasoning and include_reasoning do not reach the engine, because each engine reads them in its
// own way or not at all. The effort is sent in the words of the engine's profile, and the edge
// hides reasoning from the answer. reasoning.max_tokens is checked and dropped: no engine shares a
// member for it.
//
// Half a surrogate pair, which engines leave behind where they cut texts, becomes U+FFFD in the
// texts of the conversation (ParseHistory) and in the arguments of its tool calls (Arguments).
//
// stream_options is dropped when no stream is asked for, because vLLM refuses it then and the
// contract does not.
package chat
