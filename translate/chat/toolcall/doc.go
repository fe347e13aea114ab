// Package toolcall decides to which tool call in an answer a piece belongs. Only this package
// decides that, so a streaming client, a client that gets the whole answer, and the other dialects
// see the same tool calls:
//
//	var p toolcall.Piece
//	for it := toolCalls.Iter(); it.Next(); {
//		p.Read(it.Value())
//		part, ok := assembler.AddPiece(choice, &p)
//		// part.Position is the tool call; part.TakeName and the like say what is new
//	}
//
// An Assembler holds no text: a caller keeps what it needs of the pieces. For each tool call it
// keeps hashes of id and name and the state of a scan over the arguments, about 64 bytes; an answer
// has at most MaxPerAnswer tool calls.
//
// # What engines send
//
// According to the API a piece has the index of its tool call, and the first piece also has the id
// and the name. Some engines omit the index, give 0 to every tool call (engines that send whole
// ones), or restart the count in each delta. Some omit the id, repeat it, give two tool calls the
// same id, or make up a new id for every piece (old vLLM). Some repeat the name in each piece, or
// send the name in pieces as its tokens come. So the index that clients get is the position in
// order of appearance, and a piece belongs to
//
//   - the tool call that last had its index, or without an index the last one of its choice; but
//   - the one that has its id, where the id belongs to another tool call.
//
// Such a piece begins a new tool call if it has a name and one of these holds:
//
//   - The name differs.
//   - The arguments so far are a whole object, and the piece begins another one.
//   - The ids differ, unless the index is the same and the piece continues an object that has
//     begun.
//   - Pieces without a name have come since (such engines send the name once), and the id is not
//     the same.
//
// A piece without a name begins a tool call only if no tool call has its index. Other pieces
// without a name never change the assignment, so readers with a short cut for pieces that differ
// only in their arguments need not ask: see answer.Stream.
//
// Nothing marks a name that comes in pieces, so the names of the request's tools decide (Offer). If
// a name is not a tool's name but the beginning of one, it waits (Part.Hold) for the next piece of
// the same tool call. If both together are a tool's name or the beginning of one, they form one
// name. A piece that repeats the beginning continues the name, too. The wait ends with a complete
// name, with the arguments, with the next tool call or with the end of the choice. A tool's
// complete name passes at once, even if another tool's name begins with it, because the two cases
// cannot be distinguished.
//
// # What clients get
//
// Clients concatenate the strings of all pieces with one index, so id and name are sent once
// (Part.TakeID, Part.TakeName). They match results to tool calls by id throughout a conversation,
// and some drop the earlier of two tool calls with the same id. So an id is replaced by one of ours
// (AppendID) if it is missing when the name comes, if an earlier tool call of the choice has it, or
// if it is only a count of this answer's tool calls, as in TGI and LMDeploy.
package toolcall
