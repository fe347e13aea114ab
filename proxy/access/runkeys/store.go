package runkeys

import (
	"context"
	"errors"
)

// Store keeps the entries of keys. Its methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries of the keys that are not revoked, by id.
	Entries(ctx context.Context) (map[string]string, error)
	// Update replaces the entry of a key by what change makes of the one that is there; an empty one
	// means that there is none, and that the key is revoked. change may be called several times. After
	// an error of it nothing has changed, and Update returns that error.
	Update(ctx context.Context, id string, change func(entry string) (string, error)) error
	// InForce says where and when a change counts, for an operator.
	InForce() string
}

// ErrReadOnly is why an edge does not write a file of keys: another one does, or an operator must
// mend it first. Its text says so.
var ErrReadOnly = errors.New("this edge does not write it")
