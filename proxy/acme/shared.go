package acme

import (
	"context"
	"errors"
	"time"
)

// Shared is what the edges of a fleet have together: entries that are sealed where they are kept,
// and claims, by which one edge at a time orders for a domain. Its methods may be called from any
// goroutine.
type Shared interface {
	// Available reports whether it can be asked.
	Available() bool
	// Changes returns the entries that have changed since the last call; whole says that these are
	// all there are, as it is where all is asked for.
	Changes(ctx context.Context, all bool) (entries []Entry, whole bool, err error)
	// Put writes an entry in the place of what Changes has returned last, where claimed is set only
	// while this edge has the claim of the domain. It returns ErrChanged or ErrClaimLost.
	Put(ctx context.Context, e Entry, claimed bool) error
	// Refuse counts and logs an entry that is not taken, for its State.
	Refuse(e Entry)
	// Claim asks to be the one edge that orders for a domain, for Lease; again and again to stay it.
	// hurried says that an operator wants it tried again.
	Claim(ctx context.Context, domain string, hurried bool) (Claim, error)
	// Release gives the claim back.
	Release(ctx context.Context, domain string, r Released) error
}

// Lease is how long a claim lasts that is not renewed: after it another edge goes on with the order
// of one that has died.
const Lease = 10 * time.Second

// Claim is the answer to one.
type Claim struct {
	Granted  bool
	Wait     time.Duration // until it may be granted: another edge's lease, or a pause after a failure
	Failures int           // of the fleet, in a row
}

// Released says how an order has ended. All zero: well.
type Released struct {
	Pause    time.Duration // until the fleet tries again
	Hurried  time.Duration // until it does so for an operator
	Failures int           // in a row
}

// EntryKind is what an entry is of.
type EntryKind string

// The kinds of entries. All but the account's are a domain's.
const (
	EntryAccount     EntryKind = "account"     // the account's key, as PEM
	EntryCertificate EntryKind = "certificate" // a key and its certificates, as PEM
	EntryOrder       EntryKind = "order"       // one that runs, as JSON
	EntryAnswer      EntryKind = "answer"      // to the challenge of that order, as JSON
)

// Known reports whether this version of the program knows the kind.
func (k EntryKind) Known() bool {
	return k == EntryAccount || k == EntryCertificate || k == EntryOrder || k == EntryAnswer
}

// EntryState says whether an entry is good, or why it is not taken.
type EntryState uint8

// The states of entries.
const (
	Good   EntryState = iota
	Forged            // sealed by no edge of the fleet, or for another place
	Stale             // sealed by a key that this edge does not have, or not any more
	Older             // than one that this edge had before
	Broken            // sealed by an edge of the fleet, and of no use
)

// String returns the state as metrics call it.
func (s EntryState) String() string {
	return [...]string{"good", "forged", "stale", "older", "broken"}[s]
}

// Entry is one thing that the edges share.
type Entry struct {
	Kind  EntryKind
	Name  string // of the domain
	Text  []byte // of a good one
	State EntryState
}

// The reasons why nothing was put.
var (
	ErrChanged   = errors.New("another edge was faster")
	ErrClaimLost = errors.New("another edge has taken the order over")
)

// errStoreLost is why a domain waits.
var errStoreLost = errors.New("the fleet's store does not answer, so no certificate is ordered: another edge may be ordering it")
