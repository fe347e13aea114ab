// Package chat defines the request of the chat-completions dialect. Clients and engines speak this
// dialect, and the other dialects are translated to and from it. The package converts bytes to
// bytes. It does not use HTTP, files or the clock.
//
// # Requests
//
// jsonx scans a body once, validates it and records the positions of its values. Decode checks
// these values against the contract's chat table. CheckRules applies the rules that depend on the
// model. AppendEngineRequest, or Segments for a vectored write, produces the engine's request. It
// consists of the client's bytes with the few necessary changes.
//
//	var r chat.Request // pooled
//	err := r.Decode(body)
//	err = r.CheckRules(rules) // after the model has been looked up
//	segments, scratch = r.Segments(segments[:0], scratch[:0], format)
//	r.Reset()
//
// # Design
//
// Bodies are not decoded into Go structures. A proxy that unmarshals and marshals a body loses
// unknown members, and changes numbers, escapes and the order of keys. If a byte in messages
// changes, the engine can no longer use its prefix cache. Messages are therefore never rewritten
// unless they must change, and a test compares all other members byte by byte.
//
// A Request consists of Prompt, TokenLimit, Reasoning and ToolUse, each of which decodes, checks
// and patches its own members. Errors are logged, but bodies must not be. Errors therefore consist
// only of indexes, and of names and sentences written by the edge.
//
// Members on which the edge bases decisions must be unambiguous. If a name occurs twice, some
// readers use the first value and others the last. Some decoders, such as Go's, ignore case. The
// edge therefore rejects a request if a member that the edge reads occurs twice or in a different
// case, at any level. Members that the edge does not read pass unchanged.
//
// The edge does not count a prompt's tokens, because only the engine has the vocabulary. The edge
// therefore never rejects a request because of its length. A token limit that is too high is
// lowered, unless the edge is strict (token_limit.go).
//
// One table, shared by all dialects, limits the members that cost an engine far more work than the
// client (bounds.go). Schemas are limited by their total size (schema_bounds.go).
//
// The edge fetches no media. It rejects image URLs that could make an engine contact an unintended
// host: IP addresses in any spelling, localhost, user names, and anything that two parsers could
// read differently. For a data URL, the edge checks the base64 alphabet, detects the image format,
// and reads the size from the header in the first MiB of the image. It never decodes pixels.
//
// The edge does not send reasoning and include_reasoning to the engine, because some engines ignore
// them and others interpret them differently. The edge translates the effort to a word in the
// engine's profile. If the client does not want reasoning, the edge removes it from the answer.
//
// Engines may split a text in the middle of a surrogate pair. The edge replaces lone surrogates
// with U+FFFD in conversation texts (ParseWithRepair) and in tool call arguments (ToolArguments).
package chat
