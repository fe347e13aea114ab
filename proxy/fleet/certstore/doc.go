// Package certstore holds what the edges of a fleet need to obtain certificates together, in the
// fleet's store: an acme.Fleet, which certmagic uses as its storage.
//
// # An entry
//
// The store has one hash for each ACME directory. A field is one of certmagic's keys (the account,
// a certificate, its private key, the answer to a challenge) and holds a change number and a blob.
// A blob is sealed by the seal keys of the configuration (translate/seal, AES-256-GCM) and bound to
// the directory and the field, so one who can write to the store can read no key, and can neither
// make an entry nor put that of one domain in the place of another's. With the text a version is
// sealed, which only rises: an older entry in the place of a newer one is refused. What is refused
// is counted and logged, once for each blob.
//
// # Changes
//
// The change number of the hash only rises, over a store that was emptied, too. A read asks for what
// has a higher number than what was read last, which mostly is nothing. Put replaces what was read
// last and nothing newer.
//
// # A lock
//
// One edge at a time orders a certificate for a domain. Its lock ends after a lease unless it is
// renewed, by the store's clock, so the lock of an edge that has died is free after the lease.
package certstore
