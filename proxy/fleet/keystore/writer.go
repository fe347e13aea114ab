package keystore

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"penstock/config"
)

//go:embed put.lua
var putSource string

var putScript = valkey.NewLuaScript(putSource)

const (
	keyField    = "k:" // followed by the key id
	changeField = "n"
)

// keysHashName returns the name of the hash that contains all keys. The channel for change
// notifications has the same name.
func keysHashName(prefix string) string { return prefix + ":{keys}" }

// putIfUnchanged writes an entry if the store still contains the expected entry. expected is "" if
// the entry must not exist.
func putIfUnchanged(ctx context.Context, c valkey.Client, prefix, id, expected, raw string) (bool, error) {
	done, err := putScript.Exec(ctx, c, []string{keysHashName(prefix)}, []string{id, expected, raw}).AsInt64()
	return done == 1, err
}

// Writer changes the keys in the store.
type Writer struct {
	client  valkey.Client
	secrets []string
	prefix  string
}

// NewWriter returns a Writer that signs with the first secret.
func NewWriter(c valkey.Client, prefix string, secrets []string) *Writer {
	return &Writer{client: c, secrets: secrets, prefix: prefix}
}

// Close closes the client.
func (w *Writer) Close() { w.client.Close() }

// ListedKey describes an entry in the store.
type ListedKey struct {
	Key     config.Key
	Revoked bool
	Trouble string // why edges reject the entry; empty if they accept it
}

// String describes the entry in one line. It omits the key's hash.
func (l *ListedKey) String() string {
	state := "in force"
	switch {
	case l.Trouble != "":
		state = "REFUSED: " + l.Trouble
	case l.Revoked:
		state = "revoked"
	case !l.Key.Enabled():
		state = "off"
	case !l.Key.Expires.IsZero():
		state = "until " + l.Key.Expires.UTC().Format(time.RFC3339)
	}
	text := l.Key.ID + "  " + state
	if l.Trouble == "" && !l.Revoked {
		text += "  models " + strings.Join(l.Key.Models, ",")
	}
	return text
}

// List returns all entries in the store, sorted by id.
func (w *Writer) List(ctx context.Context) ([]ListedKey, error) {
	fields, err := w.client.Do(ctx, w.client.B().Hgetall().Key(keysHashName(w.prefix)).Build()).AsStrMap()
	if err != nil {
		return nil, err
	}
	var all []ListedKey
	for field, raw := range fields {
		id, ok := strings.CutPrefix(field, keyField)
		if !ok {
			continue
		}
		e, err := parseEntry(w.secrets, id, raw)
		l := ListedKey{Key: e.key, Revoked: e.revoked}
		l.Key.ID = id
		if err != nil {
			l.Trouble = err.Error()
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b ListedKey) int { return strings.Compare(a.Key.ID, b.Key.ID) })
	return all, nil
}

// Add adds a new key to the store. fields contains the members that the key would have in a
// keys_file. The id of a revoked key may be reused.
func (w *Writer) Add(ctx context.Context, fields map[string]any) error {
	body, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	key, err := config.ParseKeyEntry(string(body))
	if err != nil {
		return err
	}
	return w.changeEntry(ctx, key.ID, func(e entry, there bool) (string, error) {
		if there && !e.revoked {
			return "", fmt.Errorf("the store has a key %q: revoke it first, or take another name", key.ID)
		}
		return string(body), nil
	})
}

// Update replaces a key's entry with the result of next. next receives the current entry, or "" if
// the key does not exist or is revoked.
func (w *Writer) Update(ctx context.Context, id string, next func(entry string) (string, error)) error {
	return w.changeEntry(ctx, id, func(e entry, there bool) (string, error) {
		body := e.body
		if e.revoked {
			body = ""
		}
		text, err := next(body)
		if err != nil {
			return "", err
		}
		if text == "" {
			return revokedBody, nil
		}
		key, err := config.ParseKeyEntry(text)
		if err == nil && key.ID != id {
			err = errors.New("the entry is of another key")
		}
		return text, err
	})
}

// Revoke revokes a key. It returns an error if the key does not exist in the store or is already
// revoked.
func (w *Writer) Revoke(ctx context.Context, id string) error {
	return w.changeEntry(ctx, id, func(e entry, there bool) (string, error) {
		switch {
		case !there:
			return "", fmt.Errorf("the store has no key %q", id)
		case e.revoked:
			return "", fmt.Errorf("key %q is revoked already", id)
		}
		return revokedBody, nil
	})
}

var errConcurrentChange = errors.New("this key is being changed elsewhere: try again")

// changeEntry writes an entry with the body returned by next. If next returns an error, the entry
// does not change. A forged entry is treated like a missing one.
func (w *Writer) changeEntry(ctx context.Context, id string, next func(e entry, there bool) (string, error)) error {
	name := keysHashName(w.prefix)
	for range 10 {
		now, err := w.client.Do(ctx, w.client.B().Time().Build()).AsIntSlice()
		if err != nil {
			return err
		}
		if len(now) != 2 {
			return errors.New("the store did not return its time")
		}
		found, err := w.client.Do(ctx, w.client.B().Hmget().Key(name).Field(keyField+id).Build()).ToArray()
		if err != nil {
			return err
		}
		raw := ""
		if len(found) == 1 {
			raw, _ = found[0].ToString() // a nil message if the entry does not exist
		}
		e, _ := parseEntry(w.secrets, id, raw) // an invalid entry counts as empty
		body, err := next(e, raw != "")
		if err != nil {
			return err
		}
		version := max(uint64(now[0])*1e6+uint64(now[1]), e.version+1)
		done, err := putIfUnchanged(ctx, w.client, w.prefix, id, raw, signEntry(w.secrets[0], id, version, body))
		if err != nil || done {
			return err
		}
	}
	return errConcurrentChange
}
