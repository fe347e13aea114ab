// Package places lets the edges of a fleet tell each other where conversations live. An edge sends
// a conversation's next turn to the engine that has its past, even if another edge has sent it
// there.
//
// The edges exchange the contents of routing.Places: the first turn of a conversation, and each
// turn that went elsewhere than the last. Each route has a stream in the store. Every 100 ms an
// edge appends its placements, and reads what all have appended, itself included, so all edges know
// the same in the same order. It begins with the oldest kept entry, so a starting edge is warm.
//
// An entry is pairs of hashes, of a prompt's beginning and of an upstream's id, sealed by a key
// derived from the store's password: a copy of the store's data is not enough to test a guess at a
// prompt or to send conversations elsewhere. Edges with another password do not understand each
// other's entries; those are counted. In the store a route has some 60,000 entries, of 50 bytes to
// a kilobyte.
//
// All of this is advice. While the store is away, or an entry is lost, a conversation goes where
// the edge's own memory, or the hash of its beginning, says.
package places
