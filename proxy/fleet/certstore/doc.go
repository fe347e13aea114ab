// Package certstore holds what the edges of a fleet need to obtain certificates together, in the
// fleet's store: an acme.Shared.
//
// # An entry
//
// The store has one hash for each ACME directory. A field holds a change number and a blob: the
// account's key, a certificate with its key, an order that runs, or the answer to its challenge.
// A blob is sealed by the seal keys of the configuration (translate/seal, AES-256-GCM) and bound to
// the directory and the field, so one who can write to the store can read no key, and can neither
// make an entry nor put that of one domain in the place of another's. With the text a version is
// sealed, which only rises: an older entry in the place of a newer one is refused. What is refused
// is counted and logged, once for each blob.
//
// # Changes
//
// The change number of the hash only rises, over a store that was emptied, too. Changes reads what
// has a higher number than what was read last, which mostly is nothing. Put replaces what was read
// last and nothing newer.
//
// # A claim
//
// One edge at a time orders a certificate for a domain. Its claim ends after Lease unless it is
// renewed, by the store's clock. Beside the claim stand when the fleet may try again after a
// failure, and how often it has failed in a row.
package certstore
