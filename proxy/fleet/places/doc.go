// Package places shares between the edges of a fleet which engine has which conversation. An edge
// sends a conversation's next turn to the engine that has its past, even if another edge has placed
// it there.
//
// The edges exchange the contents of routing.Places: the first turn of a conversation, and each
// turn that went to another engine than the previous one. Each route has a stream in the store.
// Every 100 ms an edge appends its placements, and reads what all edges have appended, its own
// entries included, so all edges have the same entries in the same order. A starting edge begins
// with the oldest kept entry, so it soon knows all conversations.
//
// An entry holds pairs of hashes, of a prompt's beginning and of an upstream's id, sealed with a
// key derived from the store's password: a copy of the store's data is not enough to test a guess
// at a prompt or to send conversations elsewhere. Edges with different passwords cannot read each
// other's entries, and count them. A route has at most some 60,000 entries in the store, of 50
// bytes to a kilobyte each.
//
// Placements are only advice. While the store is away, or if an entry is lost, the edge's own
// memory or the hash of the prompt's beginning decides where a conversation goes.
package places
