// Package runkeys manages keys that operators create while the edge is running. They exist in
// addition to the configured keys.
//
// # Entries
//
// A key is stored as an entry: one line of JSON that has the same members as a key in a keys_file.
// It contains the hash of the key, but never the key itself. NewEntry, ChangeEntry and RotateEntry
// compute the entry that results from an operator's request, and have no side effects. The rules
// for a keys_file apply, and an error names the member as `penstock check` does.
//
// # Stores
//
// A KeyStore stores the entries. It is either a KeyFile on the edge's machine or the fleet's store
// (package keystore). Both stores pass the current entry to a function that returns the changed
// entry. No change is therefore lost if two operators change a key at the same time.
//
// # The file
//
// Only edges write the file of a KeyFile. They write a new file and rename it, so if an edge is
// killed, either the complete old file or the complete new file remains. The edge that has locked
// PATH.lock is the writer until it exits. Other edges that use the same file adopt its changes
// within a second, but refuse to write it. If the file cannot be read, the last known keys remain
// valid, and no edge writes the file until an operator has fixed it. If the file is missing, the
// next change recreates it with the last known keys.
package runkeys
