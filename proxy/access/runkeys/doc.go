// Package runkeys holds keys that are made while edges run, in addition to the keys of the
// configuration.
//
// # An entry
//
// A key is kept as an entry: one line of JSON with the members that a keys_file has for a key. An
// entry has the hash of the key, never the key itself. New, Change and Rotate make entries from an
// operator's request and have no side effects. The rules of a keys_file apply, so an error names
// the member as `penstock check` does.
//
// # Where entries are kept
//
// A Store keeps them: a File on the edge's machine, or the fleet's store (package keystore). Both
// change an entry with a function that receives the current entry. So if two operators change one
// key at the same time, neither change undoes the other.
//
// # The file
//
// Only edges write a File. They replace the complete file by a rename, so an edge that is killed
// leaves either the old file or the new one. The edge that holds the lock next to the file
// (PATH.lock) is the writer until that edge stops. Other edges with the same file adopt a change
// within a second, and refuse to write. An unreadable file changes nothing: the last keys stay in
// use, and no edge writes until an operator has fixed the file. A missing file is written again
// with the last keys.
package runkeys
