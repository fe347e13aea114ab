// Package answer reads and writes the answers of the chat-completions dialect, streamed and whole.
//
//	Chunk, Choice, Delta   views of one event of a stream
//	AppendSimpleAnswer     writes the usual whole answer for the client, in one pass
//	Completion             a view of any whole answer, which also writes it for the client
//	Stream                 passes the events of an engine on to the client
//	Assembler              builds one whole answer from a stream, if only streams can be cancelled
//	Reader                 reads either form for a translator to another dialect
//
// Stream, Assembler and Reader share streamState. streamState records the token counts, and which
// choices have arrived and ended.
//
// # Design
//
// An answer is passed on byte for byte, except for a list of edits. Decoding and encoding it would
// lose members that are unknown to the edge, and would change numbers and escapes. Members that the
// SDKs need but an engine omitted are added (missing_members.go, toolcall_members.go).
//
// Nearly every whole answer has one choice with text, and token counts. AppendSimpleAnswer copies
// this kind of answer in a few pieces. Completion handles all other answers.
//
// The chunks of a stream usually differ only in their text. Stream reads a chunk with the first
// applicable of three methods, so that most tokens cost very little:
//
//   - If the chunk differs from the previous one only in its text, Stream copies the text into the
//     previous event (template.go).
//   - If the chunk contains a role, a text, an end or the usage in the usual format, Stream reads
//     it in one pass (plain_chunk.go).
//   - Otherwise Stream parses the chunk.
//
// Engines may split a text in the middle of a surrogate pair. If the halves arrive in two events,
// the edge joins them. It replaces a lone half with U+FFFD (surrogate.go).
//
// Only this package decides what an engine's answer must contain. The error for an answer that
// violates the dialect is a *translate.BadAnswerError. For an answer that reports a failure, the
// error is an *engineerror.Error.
package answer
