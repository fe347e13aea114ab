package certstore

import "errors"

// EntryKind is the kind of an entry.
type EntryKind string

// The kinds of entries. Earlier versions of the program, without certmagic, stored accounts and
// certificates as separate kinds.
const (
	EntryValue       EntryKind = "value"       // the value of one of certmagic's keys
	EntryAccount     EntryKind = "account"     // the account's key, as PEM
	EntryCertificate EntryKind = "certificate" // a domain's key and its certificates, as PEM
)

// Known reports whether this version of the program reads the kind.
func (k EntryKind) Known() bool {
	return k == EntryValue || k == EntryAccount || k == EntryCertificate
}

// EntryState tells whether an entry is valid, or why it is refused.
type EntryState uint8

// The states of entries.
const (
	Good   EntryState = iota
	Forged            // not sealed by an edge of the fleet, or sealed for another place
	Stale             // sealed with a key that this edge lacks
	Older             // older than an entry that this edge has already read
)

// String returns the state's name in metrics.
func (s EntryState) String() string { return [...]string{"good", "forged", "stale", "older"}[s] }

// Entry is one value that the edges share.
type Entry struct {
	Kind  EntryKind
	Name  string // certmagic's key, or the domain
	Text  []byte // text of a valid entry; empty: the entry was deleted
	State EntryState
}

var (
	// ErrChanged means that nothing was written, because another edge changed the entry first.
	ErrChanged = errors.New("another edge was faster")
	// ErrLockLost means that an order was abandoned.
	ErrLockLost = errors.New("the lock in the fleet's store was lost, so another edge continues")
)
