package runkeys

import (
	"context"
	"errors"
)

// Store keeps the entries of keys. Its methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries of the keys that are not revoked, by id.
	Entries(ctx context.Context) (map[string]string, error)
	// Update replaces the entry of a key by the result of change. change receives the current
	// entry, which is empty if the key does not exist. An empty result revokes the key. Update may
	// call change several times. If change returns an error, Update changes nothing and returns
	// that error.
	Update(ctx context.Context, id string, change func(entry string) (string, error)) error
	// InForce tells an operator where and when a change takes effect.
	InForce() string
}

// ErrReadOnly means that an edge does not write a keys file, because another edge is the writer or
// an operator must fix the file first. The wrapping error gives the reason.
var ErrReadOnly = errors.New("this edge does not write it")
