// Package certstore holds in the fleet's store what its edges need to obtain certificates together:
// an acme.Fleet, which certmagic uses as its storage.
//
// # An entry
//
// The store has one hash for each ACME directory. A field is one of certmagic's keys (the account,
// a certificate, its private key, the answer to a challenge) and holds a change number and a blob.
// A blob is sealed by the seal keys of the configuration (translate/seal, AES-256-GCM) and bound to
// the directory and the field. So write access to the store is not enough to read a key, to forge
// an entry, or to replace the entry of one domain with that of another. A version is sealed with
// the text. It only rises: an older entry in place of a newer one is refused. A refusal is counted
// and logged, once for each blob.
//
// # Changes
//
// The change number of the hash only rises, even if the store was emptied. A read asks for entries
// with a higher number than the last one read, and usually there are none. Put replaces what was
// read last and nothing newer.
//
// # A lock
//
// One edge at a time orders a certificate for a domain. Its lock ends after a lease unless it is
// renewed, by the store's clock. So the lock of a dead edge is free after the lease.
package certstore
