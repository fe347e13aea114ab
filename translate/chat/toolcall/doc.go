// Package toolcall decides to which tool call of an answer a piece belongs.
//
//	var p toolcall.ToolCallPiece
//	for it := toolCalls.Iter(); it.Next(); {
//		p.Read(it.Value())
//		part, ok := assembler.AddPiece(choice, &p)
//		// part.Position is the tool call; part.TakeName and similar fields say what is new
//	}
//
// An Assembler stores no text, except names that are held back. The caller stores the parts of the
// pieces that it needs. For each tool call, an Assembler stores hashes of the id and the name, and
// the state of a scan over the arguments. This is about 64 bytes.
//
// # What engines send
//
// According to the API, a piece has the index of its tool call, and the first piece also has the id
// and the name. Engines deviate from this:
//
//   - Some omit the index, send 0 for every tool call (if they send whole tool calls), or restart
//     the count in each delta.
//   - Some omit the id, repeat it, give two tool calls the same id, or generate a new id for every
//     piece (old vLLM).
//   - Some repeat the name in each piece, or send the name in pieces, one for each token.
//
// The index that clients receive is therefore the position in order of appearance. A piece belongs
// to
//
//   - the latest tool call with the piece's index or, if the piece has no index, the latest tool
//     call of the choice; but
//   - the tool call with the piece's id, if this is a different tool call.
//
// The piece starts a new tool call instead if it has a name and one of these conditions is true:
//
//   - The name differs.
//   - The arguments so far are a whole object, and the piece starts another object.
//   - The ids differ, unless the index is the same and the piece continues an object.
//   - The tool call has already received pieces without a name, and the piece does not repeat the
//     tool call's id. Such an engine sends each name only once.
//
// A piece without a name starts a tool call only if no tool call has its index. Other pieces
// without a name never change the assignment. A reader may have a fast path for pieces that differ
// only in their arguments, and skip the Assembler for these pieces (see answer.Stream).
//
// A piece of a name looks like a whole name. The Assembler therefore compares it with the names
// of the request's tools (SetToolNames). If a name is only the start of a tool's name, it is held
// back (PieceContribution.Hold) until the next piece of the same tool call arrives. If the two
// pieces form a tool's name or the start of a tool's name, they are joined. A piece that repeats
// the start of the name also continues it. The name is held back until it is complete, or until
// the arguments, the next tool call or the end of the choice arrives. A tool's complete name is
// never held back, even if another tool's name starts with it. The edge cannot tell whether more
// of the name will follow.
//
// # What clients receive
//
// Clients concatenate the strings of all pieces with the same index, so id and name are sent only
// once (TakeID, TakeName). Throughout a conversation, clients use the id to match results to tool
// calls. If two tool calls have the same id, some clients drop the first. The edge therefore
// replaces an id (AppendGeneratedID) if it is missing when the name arrives, or if an earlier tool call of
// the choice has the same id. It also replaces ids that are only the number of the tool call in
// the answer, as in TGI and LMDeploy.
package toolcall
