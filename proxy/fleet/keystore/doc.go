// Package keystore manages the API keys stored in the fleet's store. These keys are valid in
// addition to the configured keys.
//
// # Entries
//
// The store contains one hash for all keys. The hash contains an entry for each key, under the
// key's id, and a change number. The body of an entry is either the JSON object that a keys_file
// would contain for the key, or a marker that the key is revoked. An entry also contains a version,
// and an HMAC keyed with a secret from the configuration. Write access to the store is therefore
// not sufficient to create a key or raise a limit.
//
// Versions never decrease. If an edge finds an entry that is older than the entry it knows, it
// rejects the older entry and restores the newer one. It also restores missing entries. It counts
// and logs each rejected entry once. An edge that has just started cannot know the latest version,
// but edges that have been running longer correct the store.
//
// # Reading
//
// Keys.Run reads the change number twice a second. If the number has changed, it reads all entries.
// When the store publishes a change, Keys.Listen makes Run read immediately. A revocation therefore
// takes effect within milliseconds. If the message is lost, it takes effect after half a second and
// a round trip. All keys are kept in memory, so no call has to look up a key in the store. While
// the store is unreachable, the last known keys remain valid.
//
// Until an edge has read the keys for the first time, it is not ready, and responds with 503 to
// keys that are not in its configuration. If fleet.keys.store is cached, an edge copies the entries
// to a file, in the same format as in the store. At startup, it reads this file and checks the
// entries in the same way.
//
// # Writing
//
// An operator changes entries through an edge's admin listener (Keys.Update), or with a command
// that uses a Writer. Both sign the entries, and write them by compare-and-set. A new version is
// the larger of two numbers: the store's time in microseconds, and the last version plus one. A new
// version is therefore larger even than the version of an entry that the store has lost.
//
// The entry of a revoked key is never deleted: an edge that was off may have a copy of the valid
// entry, and would restore it. The entry cannot be deleted when the key expires either, because an
// earlier version of the entry may expire later.
package keystore
