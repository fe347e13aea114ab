// Package keystore holds API keys in the fleet's store, beside those of the configuration.
//
// # An entry
//
// The store has one hash for all keys: of each an entry by its id, and a change number. An entry is
// what a keys_file lists for a key, as JSON (of a revoked key: that it is), with a version and an
// HMAC under a secret of the configuration. So one who can write to the store can neither make a
// key nor raise a limit. Versions only rise: an older entry in the place of a newer one is refused,
// and put right again, as is one that is gone. What is refused is counted and logged, once for each
// text. An edge without a memory cannot know which version was the last; those that have run
// for longer put it right.
//
// # The edge's side
//
// Keys.Run asks for the change number twice a second, and reads all entries when it has changed.
// Keys.Listen has it ask at once when the store publishes a change. So a revocation takes some
// milliseconds, and half a second and a round trip where the message is lost. All keys are held in
// memory, and no call asks the store for one. While the store is away the last keys stay.
//
// Until an edge has read the keys once it is not ready, and refuses a key that its file does not
// have with 503. One that may start with a copy (fleet.keys.store: cached) writes the entries to a
// file as they stand in the store and reads them by the same rules.
//
// # The operator's side
//
// An operator changes entries by the admin listener of an edge (Keys.Update), or by a command, which
// has a Writer of its own. Both sign what they put, by compare and set. A version is the store's time
// in microseconds, or one more than the last, whichever is greater: so it rises also over an entry
// that was lost.
package keystore
