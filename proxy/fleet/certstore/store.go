package certstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/zap"

	"penstock/translate/seal"
)

// Options configure a Store.
type Options struct {
	Link      Link
	Edge      string          // id of this edge, unique to each process
	Directory string          // URL of the ACME directory
	Secrets   func() []string // the first secret seals entries; each secret can open them
	Log       *zap.Logger
	Metrics   *metrics.Set
}

// Store reads and writes sealed entries.
type Store struct {
	o       Options
	key     string // key of the hash, without the fleet's prefix
	refused map[string]*metrics.Counter

	mu      sync.Mutex
	secrets []string // secrets from which keys was derived
	since   time.Time
	old     []Entry // valid entries that are not sealed with the first secret
	keys    *seal.Keys
	number  string // change number at the last read
	fields  map[string]*field
}

type field struct {
	change  string // "0" if the store does not contain the entry
	version uint64
	blob    string
}

// New returns a Store for the entries of one ACME directory.
func New(o Options) *Store {
	sum := sha256.Sum256([]byte(o.Directory))
	s := &Store{
		o: o, key: "acme:" + hex.EncodeToString(sum[:8]), refused: map[string]*metrics.Counter{}, number: "0",
		fields: map[string]*field{},
	}
	for _, state := range []EntryState{Forged, Stale, Older} {
		name := `penstock_fleet_certificates_refused_total{reason="` + state.String() + `"}`
		s.refused[state.String()] = o.Metrics.NewCounter(name)
	}
	return s
}

// Available reports whether the store can be reached.
func (s *Store) Available() bool { return s.o.Link.Available() }

// Changes returns the entries changed since the last call. For the first call, or if all is true,
// it returns every entry and sets whole.
func (s *Store) Changes(ctx context.Context, all bool) (entries []Entry, whole bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.number
	if all {
		number = "0"
	}
	for more := true; more; {
		words, err := s.words(ctx, readScript, 3, number, strconv.Itoa(atOnce))
		if err != nil {
			return nil, false, err
		}
		number, more, whole = words[0], words[1] == "1", whole || words[2] == "1"
		for i := 3; i+1 < len(words); i += 2 {
			if e, ok := s.open(words[i], words[i+1]); ok {
				entries = append(entries, e)
			}
		}
	}
	s.number = number
	if whole {
		s.forget(entries)
	}
	s.sealAnew(ctx)
	return entries, whole, nil
}

// sealAnewAfter is the delay between a change of the secrets and sealing the entries again. By
// then, every edge should have the new secrets.
const sealAnewAfter = 10 * time.Minute

// sealAnew seals entries that are sealed with another secret again with the first one, so that an
// operator can remove the other secret. The caller must hold mu.
func (s *Store) sealAnew(ctx context.Context) {
	old := s.old
	s.old = nil
	if time.Since(s.since) < sealAnewAfter {
		return
	}
	for _, e := range old {
		_ = s.write(ctx, e) // if this fails, the next complete read finds the entry again
	}
}

// forget marks entries that no longer exist in the store. It keeps their versions, because an
// attacker might restore an older entry.
func (s *Store) forget(there []Entry) {
	for name, f := range s.fields {
		if !slices.ContainsFunc(there, func(e Entry) bool { return fieldOf(e.Kind, e.Name) == name }) {
			f.change = "0"
		}
	}
}

func fieldOf(kind EntryKind, name string) string { return "e:" + string(kind) + ":" + name }

func (s *Store) open(name, value string) (e Entry, ok bool) {
	kind, of, _ := strings.Cut(strings.TrimPrefix(name, "e:"), ":")
	change, blob, _ := strings.Cut(value, " ")
	e = Entry{Kind: EntryKind(kind), Name: of}
	if !e.Kind.Known() {
		return e, false // the entry was written by a newer program version
	}
	f := s.field(name)
	f.change = change
	text, version, state := s.unseal(name, blob)
	if state == Good && version < f.version {
		state = Older
	}
	if e.State = state; state != Good {
		s.refuse(f, e, blob)
		return e, true
	}
	e.Text, f.version, f.blob = text, version, ""
	var result seal.Result
	if !s.box(name, &result).Newest([]byte(blob)) {
		s.old = append(s.old, e)
	}
	return e, true
}

func (s *Store) field(name string) *field {
	f := s.fields[name]
	if f == nil {
		f = &field{change: "0"}
		s.fields[name] = f
	}
	return f
}

func (s *Store) box(field string, result *seal.Result) seal.Box {
	if secrets := s.o.Secrets(); s.keys == nil || !slices.Equal(secrets, s.secrets) {
		s.since, s.secrets, s.keys = time.Now(), secrets, seal.NewKeysFor("certificates", secrets...)
	}
	return s.keys.Of(s.key, func(r seal.Result) { *result = r }).For(field)
}

func (s *Store) unseal(field, blob string) (text []byte, version uint64, state EntryState) {
	var result seal.Result
	plain, ok := s.box(field, &result).Open(nil, []byte(blob))
	if !ok && result == seal.Stale {
		return nil, 0, Stale
	}
	number, text, cut := bytes.Cut(plain, []byte(" "))
	version, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || !cut || err != nil {
		return nil, 0, Forged
	}
	return text, version, Good
}

var remedies = map[EntryState]string{
	Forged: "find out who else can write to the fleet's store: this edge restores its own entries",
	Stale:  "give all edges the same seal.keys",
	Older:  "find out whether the store was rolled back, or who else can write to it: this edge restores the entry",
}

func (s *Store) refuse(f *field, e Entry, blob string) {
	if f.blob == blob {
		return
	}
	f.blob = blob
	s.refused[e.State.String()].Inc()
	s.o.Log.Error("an entry of the fleet's certificates in the store is refused", zap.String("reason", e.State.String()),
		zap.String("entry", string(e.Kind)), zap.String("domain", e.Name), zap.String("remedy", remedies[e.State]))
}

var errTooLong = errors.New("the entry is too long to be sealed")

// Put replaces an entry returned by Changes. If another edge has changed the entry since then, it
// returns ErrChanged.
func (s *Store) Put(ctx context.Context, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.write(ctx, e)
}

// write does the work of Put. The caller must hold mu.
func (s *Store) write(ctx context.Context, e Entry) error {
	name := fieldOf(e.Kind, e.Name)
	f := s.field(name)
	version := max(f.version+1, uint64(time.Now().UnixMicro()))
	plain := append(strconv.AppendUint(nil, version, 10), ' ')
	var result seal.Result
	blob, ok := s.box(name, &result).Seal(nil, append(plain, e.Text...))
	if !ok {
		return errTooLong
	}
	words, err := s.words(ctx, putScript, 1, name, f.change, string(blob), milliseconds(kept))
	switch {
	case err != nil:
		return err
	case words[0] == "changed":
		return ErrChanged
	}
	f.change, f.version, f.blob = words[0], version, ""
	return nil
}

// Claim requests a lock for the duration Lease. The holder renews the lock by calling Claim again
// before the lease expires by the store's clock.
func (s *Store) Claim(ctx context.Context, name string) (granted bool, err error) {
	words, err := s.words(ctx, claimScript, 1, name, s.o.Edge, milliseconds(Lease), milliseconds(kept))
	return err == nil && words[0] == "granted", err
}

// Release releases a lock.
func (s *Store) Release(ctx context.Context, name string) error {
	_, err := s.words(ctx, releaseScript, 1, name, s.o.Edge)
	return err
}
