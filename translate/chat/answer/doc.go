// Package answer reads and writes the answers of the chat-completions dialect, streamed and whole.
//
//	Chunk, Choice, Delta   views of one event of a stream
//	AppendPlain            writes the usual whole answer for the client, in one pass
//	Completion             a view of any whole answer, and its writer for the client
//	Stream                 passes the events of an engine on to the client
//	Assembler              builds one whole answer from a stream, if only streams can be cancelled
//	Reader                 reads either for a translator to another dialect
//
// Stream, Assembler and Reader share streamState: the choices that have arrived and ended, and the
// token counts. Package toolcall decides for all three to which tool call a piece belongs.
//
// # Design
//
// An answer is passed on byte for byte, apart from a list of edits. Decoding and encoding it would
// lose members that are unknown to the edge, and would change numbers and escapes. Members that the
// SDKs need but an engine omitted are added (missing_members.go, toolcall_members.go).
//
// Nearly every whole answer is one choice of text with counts. AppendPlain copies such an answer in
// a few pieces. It leaves everything else to Completion, and a fuzz test checks that both write the
// same answer.
//
// A token must cost next to nothing. The chunks of a stream differ only in their text, so a chunk
// is first compared with the last one (template.go). If it differs in more than that, Stream reads
// the chunk in one pass, provided that it is a role, a text, an end or the usage in the usual
// format (plain_chunk.go). Stream parses only other chunks. Tests compare all three methods.
//
// Engines produce lone surrogates where they cut texts. Such a half becomes U+FFFD. Pairs whose
// halves arrive in two events are joined (surrogate.go).
//
// Only this package decides what an engine's answer must contain. The error for an answer that
// breaks the dialect is a *translate.BadAnswer. For an answer that reports a failure it is an
// *engineerror.Error.
package answer
