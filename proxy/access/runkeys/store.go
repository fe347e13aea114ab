package runkeys

import (
	"context"
	"errors"
)

// Store keeps the entries of keys. Its methods may be called from any goroutine.
type Store interface {
	// Entries returns the entries of the keys that are not revoked, by id.
	Entries(ctx context.Context) (map[string]string, error)
	// Update replaces the entry of a key by the result of change, which receives the current entry. An
	// empty entry means that the key does not exist; an empty result revokes the key. Update may call
	// change several times. If change fails, nothing has changed, and Update returns its error.
	Update(ctx context.Context, id string, change func(entry string) (string, error)) error
	// InForce tells an operator where and when a change takes effect.
	InForce() string
}

// ErrReadOnly is the reason why an edge does not write a keys file: another edge does, or an
// operator must fix the file first. The wrapping error says which.
var ErrReadOnly = errors.New("this edge does not write it")
