// Package keystore manages the API keys in the fleet's store. These keys are valid in addition to
// the configured keys.
//
// # Entries
//
// The store has one hash for all keys. It contains an entry for each key, by key id, and a change
// number. The body of an entry is the JSON object that a keys_file would contain for the key, or a
// mark that the key is revoked. An entry also contains a version, and an HMAC with a secret of the
// configuration. Write access to the store is therefore not enough to create a key or to raise a
// limit.
//
// Versions only increase. If an edge finds an older entry than the one that it knows, it refuses
// the older entry and restores the newer one. It restores missing entries as well. It counts and
// logs each refused entry once. An edge that has just started cannot know the latest version, but
// edges that have been running for longer correct the store.
//
// # Reading
//
// Keys.Run reads the change number twice a second, and reads all entries if the number has changed.
// When the store publishes a change, Keys.Listen makes Run read immediately. A revocation therefore
// takes effect within milliseconds or, if the message is lost, after half a second and a round
// trip. All keys are in memory, so no call asks the store for a key. While the store is
// unreachable, the last known keys stay valid.
//
// Until an edge has read the keys for the first time, it is not ready, and answers 503 to a key
// that is not in its file. If fleet.keys.store is cached, an edge writes the entries to a file, in
// the same format as in the store. When it starts, it reads this file and checks the entries in the
// same way.
//
// # Writing
//
// An operator changes entries through the admin listener of an edge (Keys.Update), or with a
// command that uses a Writer. Both sign the entries and write them by compare and set. A new
// version is the store's time in microseconds, or the last version plus one, whichever is greater.
// A new version is therefore greater even than the version of an entry that the store has lost.
package keystore
