package certstore

import "errors"

// EntryKind is the kind of an entry.
type EntryKind string

// These are the kinds of entries. EntryAccount and EntryCertificate were written by versions of the
// program that did not use certmagic.
const (
	EntryValue       EntryKind = "value"       // the value of a certmagic key
	EntryAccount     EntryKind = "account"     // a private key in PEM
	EntryCertificate EntryKind = "certificate" // a private key and its certificate chain in PEM
)

// Known reports whether this version of the program reads the kind.
func (k EntryKind) Known() bool {
	return k == EntryValue || k == EntryAccount || k == EntryCertificate
}

// EntryState is the result of checking an entry: valid, or the reason for refusing it.
type EntryState uint8

// The states of entries.
const (
	Good   EntryState = iota
	Forged            // not sealed by an edge of the fleet, or copied from another field
	Stale             // sealed with a key that this edge does not have
	Older             // older than the version that this edge has already read
)

// String returns the name of the state in metrics.
func (s EntryState) String() string { return [...]string{"good", "forged", "stale", "older"}[s] }

// Entry is one value that the edges share.
type Entry struct {
	Kind  EntryKind
	Name  string // key of certmagic, or domain
	Text  []byte // empty: the entry was deleted
	State EntryState
}

var (
	// ErrChanged is returned by Put if another edge has changed the entry.
	ErrChanged = errors.New("another edge was faster")
	// ErrLockLost is the cause of an order that was abandoned because its lock expired.
	ErrLockLost = errors.New("the lock in the fleet's store was lost, so another edge continues")
)
