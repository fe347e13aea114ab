// Package runkeys is about keys that are made while edges run, beside those of the configuration.
//
// # An entry
//
// A key is kept as an entry: what a keys_file lists for a key, as one line of JSON. It has the hash
// of the key, never the key. New, Change and Rotate make entries of what an operator asks for; they
// have no effects. The rules are those of the file, so an error names the member as
// `penstock check` would.
//
// # Where entries are kept
//
// A Store keeps them: a File of the edge's machine, or the fleet's store (package keystore). Both
// change an entry by a function of the one that is there, so of two operators who change one key
// at a time neither undoes the other's change.
//
// # The file
//
// A File is written by edges only, whole and by a rename: an edge that is killed leaves the old
// file or the new one. The one that has the lock beside it (PATH.lock) writes, until it ends. Others
// on the same file follow it, within a second of a change, and refuse to write. A file that cannot
// be read changes nothing: the keys that were read last stay, and nobody writes before an operator
// has mended it. One that is gone is written anew with the keys that were read last.
package runkeys
