package certstore

import "errors"

// EntryKind is the kind of an entry.
type EntryKind string

// These are the kinds of entries. EntryAccount and EntryCertificate were written by program
// versions without certmagic.
const (
	EntryValue       EntryKind = "value"       // the value of a certmagic key
	EntryAccount     EntryKind = "account"     // a private key in PEM
	EntryCertificate EntryKind = "certificate" // a private key and its certificate chain in PEM
)

// IsKnown reports whether this version of the program reads the kind.
func (k EntryKind) IsKnown() bool {
	return k == EntryValue || k == EntryAccount || k == EntryCertificate
}

// EntryState is the result of checking an entry: StateGood, or the reason for rejecting it.
type EntryState uint8

// These are the states of entries.
const (
	StateGood       EntryState = iota
	StateForged                // not sealed by an edge of the fleet, or copied from another field
	StateUnknownKey            // sealed with a key that this edge does not have
	StateOldVersion            // this edge has already read a newer version
)

// String returns the name of the state in metrics.
func (s EntryState) String() string { return [...]string{"good", "forged", "stale", "older"}[s] }

// Entry is a value shared by the edges.
type Entry struct {
	Kind  EntryKind
	Name  string // certmagic key or domain
	Text  []byte // empty if the entry was deleted
	State EntryState
}

var (
	// ErrChanged is returned by Put if another edge has changed the entry.
	ErrChanged = errors.New("another edge was faster")
	// ErrLockLost is the cause with which an order is canceled when its lock has expired.
	ErrLockLost = errors.New("the lock in the fleet's store was lost, so another edge continues")
)
