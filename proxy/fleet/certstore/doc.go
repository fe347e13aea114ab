// Package certstore lets the edges of a fleet obtain certificates together. It keeps the
// certificates and ACME accounts in the fleet's store. It implements acme.FleetStore, which
// certmagic uses as its storage.
//
// # Entries
//
// The store contains one hash per ACME directory. Each field of the hash belongs to one certmagic
// key, such as the account, a certificate, a private key, or the answer to a challenge. A field
// contains a change number and a blob. The blob is sealed with a secret from seal.keys in the
// configuration (package translate/seal, AES-256-GCM), and is bound to the directory and the field.
// Access to the store is therefore not sufficient to read a private key, forge an entry, or replace
// one domain's entry with that of another domain.
//
// The sealed text contains a version, which never decreases. An edge rejects an entry if it has
// already read a newer version. It counts and logs each rejected blob once.
//
// # Changes
//
// The hash has a change number, which only increases, even if the store was emptied. A read
// requests only the entries changed since the last read. Usually, there are none. Put replaces an
// entry only if the entry has not changed since the last read.
package certstore
