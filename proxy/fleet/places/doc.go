// Package places lets the edges of a fleet share which engine has which conversation. An edge sends
// a conversation's next turn to the engine that has the earlier turns, even if another edge has
// sent them there.
//
// The edges exchange the contents of routing.Places: the first turn of a conversation, and each
// turn that went to another engine than the previous turn. Each route has a stream in the store.
// Every 100 ms an edge appends its placements, and reads what all edges, including itself, have
// appended. So all edges have the same entries in the same order. A new edge reads from the oldest
// entry in the stream, so that it soon knows all conversations.
//
// An entry holds pairs of hashes: of a prompt's prefix, and of an upstream's id. An entry is sealed
// with a key derived from the store's password, so a copy of the store's data is not enough to test
// guesses of a prompt or to misdirect conversations. Edges with different passwords cannot read
// each other's entries, and count them as unreadable. A route has at most about 60,000 entries in
// the store, of 50 bytes to a kilobyte each.
//
// Placements are only advice. While the store is unreachable, or if an entry is lost, the edge's
// own memory or the hash of the prompt's prefix decides which engine gets a conversation.
package places
