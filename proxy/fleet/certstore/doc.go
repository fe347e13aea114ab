// Package certstore lets the edges of a fleet obtain certificates together. It stores their
// certificates and ACME accounts in the fleet's store. It implements acme.Fleet, which certmagic
// uses as its storage.
//
// # Entries
//
// The store has one hash for each ACME directory. Each field of the hash belongs to one key of
// certmagic, such as the account, a certificate, a private key, or the answer to a challenge. A
// field contains a change number and a blob. The blob is sealed with a secret from seal.keys in the
// configuration (package translate/seal, AES-256-GCM) and bound to the directory and the field.
// Access to the store is therefore not enough to read a private key, to forge an entry, or to
// replace the entry of one domain with that of another domain.
//
// The sealed text contains a version, which only increases. An edge refuses an entry that is older
// than the version that it has already read. It counts and logs each refused blob once.
//
// # Changes
//
// The change number of the hash only increases, even if the store was emptied. A read requests only
// the entries that have changed since the last read. Usually, no entry has. Put replaces an entry
// only if the entry has not changed since the last read.
package certstore
