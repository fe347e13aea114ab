package runkeys

import (
	"context"
	"errors"
)

// KeyStore stores the entries of keys. Its methods may be called by multiple goroutines.
type KeyStore interface {
	// Entries returns the entries of all keys that have not been revoked, keyed by id.
	Entries(ctx context.Context) (map[string]string, error)
	// Update replaces a key's entry with the result of change. change receives the current entry,
	// or "" if the key does not exist. An empty result revokes the key. Update may call change
	// multiple times. If change returns an error, Update returns that error and changes nothing.
	Update(ctx context.Context, id string, change func(entry string) (string, error)) error
	// EffectNotice returns a text that tells operators when a change takes effect.
	EffectNotice() string
}

// ErrReadOnly means that this edge cannot write the file, either because another edge is the writer
// or because an operator must fix the file. The wrapping error states the reason.
var ErrReadOnly = errors.New("this edge does not write it")
