// Package keystore holds API keys in the fleet's store, in addition to those in the configuration.
//
// # An entry
//
// The store has one hash for all keys: an entry for each key, by its id, and a change number. An
// entry has the members that a keys_file has for the key, as JSON, or a mark that the key is
// revoked. It also has a version, and an HMAC under a secret from the configuration. So write
// access to the store is not enough to make a key or to raise a limit. Versions only increase. An
// older entry that replaces a newer one is refused and corrected, and a missing entry is restored.
// Each refused text is counted and logged once. An edge that has just started cannot know the
// latest version; edges that have run for longer correct the store.
//
// # The edge's side
//
// Keys.Run reads the change number twice a second, and all entries when the number has changed.
// When the store publishes a change, Keys.Listen makes Run read at once. So a revocation takes some
// milliseconds, or half a second and a round trip if the message is lost. All keys are held in
// memory, and no call asks the store for a key. While the store is unreachable, the last keys stay
// in use.
//
// Until an edge has read the keys once, it is not ready, and refuses a key that is not in its file
// with a 503. An edge that may start with a copy (fleet.keys.store: cached) writes the entries to a
// file in the store's format, and reads them with the same checks.
//
// # The operator's side
//
// An operator changes entries through an edge's admin listener (Keys.Update), or by a command with
// its own Writer. Both sign their entries and write them by compare and set. A version is the
// store's time in microseconds, or one more than the last version, whichever is greater. So a new
// version also exceeds the version of a lost entry.
package keystore
