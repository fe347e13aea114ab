// Package chat defines the request of the chat-completions dialect. Clients and engines speak this
// dialect, and the other dialects are translated to and from it. The package turns bytes into bytes
// and uses neither HTTP nor files nor the clock.
//
// # Requests
//
// A body is scanned once by jsonx, which validates the body and records the positions of its
// values. Decode then walks over this record and checks the body against the contract's chat table.
// Check applies the rules that depend on the model. AppendUpstream, or Segments for a vectored
// write, gives the engine the client's own bytes, in which only the few necessary members are
// changed:
//
//	var r chat.Request // pooled
//	err := r.Decode(body)
//	err = r.Check(rules) // after the model has been looked up
//	segments, scratch = r.Segments(segments[:0], scratch[:0], format)
//	r.Reset()
//
// Package answer reads and writes answers. It does not depend on requests.
//
// # Design
//
// Nothing is decoded into structures. A proxy that unmarshals and marshals again loses members that
// it does not know and changes numbers, escapes and the order of keys; a changed byte in messages
// costs the engine its prefix cache. Messages that need no change are therefore never rewritten,
// and a test compares everything that must not change byte by byte.
//
// A Request consists of Prompt, TokenLimit, Reasoning and ToolUse, each of which decodes, checks
// and patches its own members. Errors are logged and bodies are not, so errors consist only of
// indexes and of the edge's own names and sentences.
//
// Members on which the edge bases decisions must be unambiguous. If a member name occurs twice,
// some readers take the first and some the last, and Go's decoder ignores case. A member that is
// read here is therefore refused, at every level, if it occurs twice or in another case. Members
// that are not read pass unchanged, except those that steer an engine and, at a hosted engine,
// those that cost money or store data (Hosted of RefusedMembers).
//
// An optional member that is null counts as absent, because SDKs send null for members that were
// not set. An integer may be written 1.0 or 1e2; engines get it in digits.
//
// A prompt's length is not measured, because only the engine has the vocabulary. No request is
// therefore refused for its length. A token limit that is too high is lowered, unless the edge is
// strict (token_limit.go).
//
// One table for all dialects limits the members that cost an engine far more work than the client
// (bounds.go). Schemas are limited by their total size (schema_bounds.go).
//
// Nothing is fetched. An https URL of an image is checked for what could lead an engine astray:
// addresses in any spelling, localhost, user names, and anything that two parsers could read
// differently. In a data URL the edge checks the alphabet, sniffs the kind, and reads the size from
// the image's header, within its first MiB. It never decodes the pixels. Audio, video and files are
// accepted if the model's entry names them, and are not inspected (parts.go).
//
// reasoning and include_reasoning do not reach the engine, because each engine reads them in its
// own way or not at all. The edge sends the effort in the words of the engine's profile, and hides
// reasoning in the answer if the client does not want it. reasoning.max_tokens is checked and
// dropped, because engines have no common member for it.
//
// Engines produce lone surrogates where they cut texts. These become U+FFFD in the conversation's
// texts (ParseHistory) and in the arguments of tool calls (Arguments).
//
// stream_options is dropped when the client does not ask for a stream, because vLLM would refuse
// the member and the contract allows it.
package chat
