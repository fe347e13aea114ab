// Package certstore lets the edges of a fleet obtain certificates together. It keeps their data in
// the fleet's store, and implements acme.Fleet, which certmagic uses as its storage.
//
// # An entry
//
// The store has one hash for each ACME directory. A field belongs to one of certmagic's keys (the
// account, a certificate, its private key, the answer to a challenge) and holds a change number and
// a blob. A blob is sealed with the seal keys of the configuration (translate/seal, AES-256-GCM)
// and bound to the directory and the field. So access to the store is not enough to read a key, to
// forge an entry, or to replace one domain's entry with another domain's. The sealed text contains
// a version, which only increases. An edge refuses an older entry that replaces a newer one. Each
// refused blob is counted and logged once.
//
// # Changes
//
// The change number of the hash only increases, even if the store was emptied. A read requests
// entries with a higher number than the last read saw, and usually gets none. Put replaces an entry
// only if it has not changed since the last read.
//
// # A lock
//
// One edge at a time orders a certificate for a domain. That edge holds the domain's lock. The lock
// expires after a lease by the store's clock, unless the edge renews it. So a dead edge's lock is
// free after the lease.
package certstore
