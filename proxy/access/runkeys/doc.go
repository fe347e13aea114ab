// Package runkeys manages keys that operators make while edges are running. They exist in addition
// to the configured keys.
//
// # Entries
//
// A key is stored as an entry: one line of JSON that has the same members as a key in a keys_file.
// An entry contains the hash of the key, never the key. New, Change and Rotate compute the entry
// that an operator's request asks for, and have no side effects. The rules of a keys_file apply,
// and errors name the member in the same way as `penstock check`.
//
// # Stores
//
// A Store stores the entries: a File on the edge's machine, or the fleet's store (package
// keystore). Both pass the current entry to the function that changes it. If two operators change a
// key at the same time, no change is therefore lost.
//
// # The file
//
// Only edges write a File. They replace the whole file by renaming a new one, so if an edge is
// killed, either the old or the new file remains. The edge that holds the lock on PATH.lock is the
// writer until it stops. Other edges with the same file adopt changes within a second, and refuse
// to write. If the file cannot be read, the last known keys stay valid, and no edge writes the file
// until an operator has fixed it. If the file is missing, the next change recreates it from the
// last known keys.
package runkeys
