package runkeys

import (
	"context"
	"errors"
)

// Store stores the entries of keys. Any goroutine may call its methods.
type Store interface {
	// Entries returns the entries of all keys that have not been revoked, by id.
	Entries(ctx context.Context) (map[string]string, error)
	// Update replaces the entry of a key with the result of change. change receives the current
	// entry, or "" if the key does not exist. An empty result revokes the key. Update may call
	// change more than once. If change returns an error, Update changes nothing and returns this
	// error.
	Update(ctx context.Context, id string, change func(entry string) (string, error)) error
	// InForce returns a text that tells operators when a change takes effect.
	InForce() string
}

// ErrReadOnly means that this edge cannot write the file: another edge is the writer, or an
// operator must fix the file. The error that wraps it states which.
var ErrReadOnly = errors.New("this edge does not write it")
