// Package toolcall decides which tool call of an answer a piece belongs to. It is the one place
// that does, so that a streaming client, a client that gets the whole answer, and the other
// dialects see the same tool calls:
//
//	var p toolcall.Piece
//	for it := toolCalls.Iter(); it.Next(); {
//		p.Read(it.Value())
//		part, ok := assembler.AddPiece(choice, &p)
//		// part.Position is the tool call; part.TakeName and the like say what is new
//	}
//
// An Assembler holds no text: a caller keeps what it needs of the pieces. Per tool call it keeps
// hashes of id and name and the state of a scan over the arguments, about 64 bytes, and an answer
// has at most MaxPerAnswer tool calls.
//
// # What engines send
//
// By the book a piece has the index of its tool call, and the first piece has id and name besides.
// Engines leave the index out, give 0 to every tool call (those that send whole ones), or count
// anew in each delta. They leave the id out, repeat it, give one to two tool calls, or make up a
// new one for every piece (old vLLM). They repeat the name in each piece, or pass it on in pieces
// as its tokens come. So the index that clients get is the position in order of appearance, and a
// piece belongs to
//
//   - the tool call that last had its index, or without an index the last one of its choice; but
//   - the one that has its id, where the id is that of another.
//
// Such a piece begins a tool call of its own if it has a name and one of these holds:
//
//   - The name is another.
//   - The arguments so far are a whole object, and the piece begins another.
//   - The ids differ, unless the index is the same and the piece goes on with an object that has
//     begun.
//   - Pieces without a name have come since (such engines say the name once), and the id is not the
//     same.
//
// A piece without a name begins a tool call only if nothing else has its index. The rule needs no
// more of a piece than that it has no name to know that it changes nothing, so readers with a short
// cut for pieces that differ in their arguments alone need not ask: see answer.Stream.
//
// A name in pieces has no mark of its own, so the names of the request's tools decide (Offer). One
// that is none of them and begins one waits (Part.Hold) for the next piece of the same tool call:
// if both together begin a tool's name, or are one, they are one name, and so is a piece that has
// the beginning once more. The wait ends with a tool's name, with the arguments, with the next tool
// call or with the choice. A name that is a tool's passes at once: a tool whose name begins
// another's is not told from a piece of that.
//
// # What clients get
//
// Clients add up the strings of all pieces with one index, so id and name are sent once
// (Part.TakeID, Part.TakeName). They match results to tool calls by id, throughout a conversation,
// and some drop the earlier of two with one id. So an id that is missing when the name comes, that
// an earlier tool call of the choice has, or that is a count of the tool calls of this answer, as
// TGI and LMDeploy have it, is replaced by one of ours (AppendID).
package toolcall
