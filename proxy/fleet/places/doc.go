// Package places lets the edges of a fleet share which engine has cached which conversation. An
// edge can then send the next turn of a conversation to the engine that has cached the earlier
// turns, even if another edge has sent those turns.
//
// The edges exchange the contents of routing.SharedPlacements: the first turn of each conversation,
// and each turn that went to a different engine than the turn before. Each route has a stream in
// the store. Every 100 ms, an edge appends its placements to the stream and reads the new entries
// of all edges, including its own. All edges therefore have the same entries in the same order. A
// new edge reads the entire stream.
//
// An entry contains pairs of hashes: the hash of a prompt prefix and the hash of an upstream's id.
// It is sealed with a key derived from the store's password. Access to the store's data is
// therefore not sufficient to test guesses of a prompt or to misdirect conversations. If edges have
// different passwords, they cannot read each other's entries, and count them as unreadable. A
// stream has at most about 60,000 entries, whose size is between 50 bytes and a kilobyte.
//
// Placements are only hints. If the store is unreachable or an entry is lost, the edge's local
// memory or the hash of the prompt prefix determines which engine gets a conversation.
package places
