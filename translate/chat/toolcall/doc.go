// Package toolcall decides to which tool call in an answer a piece belongs. Only this package
// decides that, so streaming clients, clients that get the whole answer, and the other dialects all
// see the same tool calls:
//
//	var p toolcall.Piece
//	for it := toolCalls.Iter(); it.Next(); {
//		p.Read(it.Value())
//		part, ok := assembler.AddPiece(choice, &p)
//		// part.Position is the tool call; part.TakeName and the like say what is new
//	}
//
// An Assembler holds no text. The caller keeps the parts of the pieces that it needs. For each tool
// call, an Assembler keeps hashes of the id and the name, and the state of a scan over the
// arguments. This takes about 64 bytes. An answer has at most MaxPerAnswer tool calls.
//
// # What engines send
//
// According to the API a piece has the index of its tool call, and the first piece also has the id
// and the name. Some engines omit the index, give 0 to every tool call (if they send whole tool
// calls), or restart the count in each delta. Some omit the id, repeat it, give two tool calls the
// same id, or make up a new id for every piece (old vLLM). Some repeat the name in each piece, or
// send the name in pieces, one for each token. Clients therefore get the position in order of
// appearance as the index. A piece belongs to
//
//   - the tool call that last had its index, or without an index the last one of its choice; but
//   - the tool call that has its id, if that is another one.
//
// Such a piece starts a new tool call if it has a name and one of these holds:
//
//   - The name differs.
//   - The arguments so far are a whole object, and the piece starts another one.
//   - The ids differ, unless the index is the same and the piece continues an object that has
//     started.
//   - Pieces without a name have arrived since (such engines send the name once), and the id is not
//     the same.
//
// A piece without a name starts a tool call only if no tool call has its index. Other pieces
// without a name never change the assignment. Readers with a fast path for pieces that differ only
// in their arguments therefore need not ask the Assembler (see answer.Stream).
//
// Nothing marks a name that arrives in pieces, so the names of the request's tools decide (Offer).
// If a name is not a tool's name but the start of one, it waits (Part.Hold) for the next piece of
// the same tool call. If both together are a tool's name or the start of one, they form one name. A
// piece that repeats the start also continues the name. The wait ends with a complete name, with
// the arguments, with the next tool call or with the end of the choice. A tool's complete name is
// passed on at once, even if another tool's name starts with it, because the two cases cannot be
// distinguished.
//
// # What clients get
//
// Clients concatenate the strings of all pieces with one index, so id and name are sent once
// (Part.TakeID, Part.TakeName). They match results to tool calls by id throughout a conversation,
// and some drop the earlier of two tool calls with the same id. An id is therefore replaced by one
// from the edge (AppendID) in three cases: it is missing when the name arrives, an earlier tool
// call of the choice has it, or it only counts this answer's tool calls, as in TGI and LMDeploy.
package toolcall
