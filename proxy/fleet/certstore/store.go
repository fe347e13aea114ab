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
	o               Options
	key             string // key of the hash, without the fleet's prefix
	refusedCounters map[string]*metrics.Counter

	mu              sync.Mutex
	secrets         []string // secrets from which the sealing keys were derived
	secretsChanged  time.Time
	entriesToReseal []Entry // valid entries that are not sealed with the first secret
	keys            *seal.Keys
	lastChange      string // change number at the last read
	fieldStates     map[string]*lastSeenEntry
}

type lastSeenEntry struct {
	changeNumber string // "0" if the store does not contain the entry
	version      uint64
	blob         string
}

// New returns a Store for the entries of one ACME directory.
func New(o Options) *Store {
	sum := sha256.Sum256([]byte(o.Directory))
	s := &Store{
		o: o, key: "acme:" + hex.EncodeToString(sum[:8]), refusedCounters: map[string]*metrics.Counter{}, lastChange: "0",
		fieldStates: map[string]*lastSeenEntry{},
	}
	for _, state := range []EntryState{StateForged, StateUnknownKey, StateOldVersion} {
		name := `penstock_fleet_certificates_refused_total{reason="` + state.String() + `"}`
		s.refusedCounters[state.String()] = o.Metrics.NewCounter(name)
	}
	return s
}

// Available reports whether the store can be reached.
func (s *Store) Available() bool { return s.o.Link.Available() }

// ReadChanges returns the entries changed since the last call. For the first call, or if all is true,
// it returns every entry and sets whole.
func (s *Store) ReadChanges(ctx context.Context, all bool) (entries []Entry, whole bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := s.lastChange
	if all {
		number = "0"
	}
	for more := true; more; {
		words, err := s.runScript(ctx, readScript, 3, number, strconv.Itoa(maxEntriesPerRead))
		if err != nil {
			return nil, false, err
		}
		number, more, whole = words[0], words[1] == "1", whole || words[2] == "1"
		for i := 3; i+1 < len(words); i += 2 {
			if e, ok := s.openEntry(words[i], words[i+1]); ok {
				entries = append(entries, e)
			}
		}
	}
	s.lastChange = number
	if whole {
		s.markMissing(entries)
	}
	s.resealOld(ctx)
	return entries, whole, nil
}

// resealDelay is the time between a change of the secrets and the resealing of the entries. By
// then, every edge should have the new secrets.
const resealDelay = 10 * time.Minute

// resealOld reseals entries with the first secret if they are sealed with another secret, so that
// an operator can remove the other secret. The caller must hold mu.
func (s *Store) resealOld(ctx context.Context) {
	old := s.entriesToReseal
	s.entriesToReseal = nil
	if time.Since(s.secretsChanged) < resealDelay {
		return
	}
	for _, e := range old {
		_ = s.putLocked(ctx, e) // if this fails, the next complete read finds the entry again
	}
}

// markMissing marks entries that no longer exist in the store. It keeps their versions, because an
// attacker might restore an older entry.
func (s *Store) markMissing(there []Entry) {
	for name, f := range s.fieldStates {
		if !slices.ContainsFunc(there, func(e Entry) bool { return fieldName(e.Kind, e.Name) == name }) {
			f.changeNumber = "0"
		}
	}
}

func fieldName(kind EntryKind, name string) string { return "e:" + string(kind) + ":" + name }

func (s *Store) openEntry(name, value string) (e Entry, ok bool) {
	kind, of, _ := strings.Cut(strings.TrimPrefix(name, "e:"), ":")
	change, blob, _ := strings.Cut(value, " ")
	e = Entry{Kind: EntryKind(kind), Name: of}
	if !e.Kind.IsKnown() {
		return e, false // the entry was written by a newer program version
	}
	f := s.findLastSeen(name)
	f.changeNumber = change
	text, version, state := s.unseal(name, blob)
	if state == StateGood && version < f.version {
		state = StateOldVersion
	}
	if e.State = state; state != StateGood {
		s.countRefusedEntry(f, e, blob)
		return e, true
	}
	e.Text, f.version, f.blob = text, version, ""
	var result seal.Result
	if !s.entrySealBox(name, &result).UsesNewestSecret([]byte(blob)) {
		s.entriesToReseal = append(s.entriesToReseal, e)
	}
	return e, true
}

func (s *Store) findLastSeen(name string) *lastSeenEntry {
	f := s.fieldStates[name]
	if f == nil {
		f = &lastSeenEntry{changeNumber: "0"}
		s.fieldStates[name] = f
	}
	return f
}

func (s *Store) entrySealBox(field string, result *seal.Result) seal.Box {
	if secrets := s.o.Secrets(); s.keys == nil || !slices.Equal(secrets, s.secrets) {
		s.secretsChanged, s.secrets, s.keys = time.Now(), secrets, seal.NewKeysFor("certificates", secrets...)
	}
	return s.keys.NewBox(s.key, func(r seal.Result) { *result = r }).WithModel(field)
}

func (s *Store) unseal(field, blob string) (text []byte, version uint64, state EntryState) {
	var result seal.Result
	plain, ok := s.entrySealBox(field, &result).Open(nil, []byte(blob))
	if !ok && result == seal.ResultUnknownSecret {
		return nil, 0, StateUnknownKey
	}
	number, text, cut := bytes.Cut(plain, []byte(" "))
	version, err := strconv.ParseUint(string(number), 10, 64)
	if !ok || !cut || err != nil {
		return nil, 0, StateForged
	}
	return text, version, StateGood
}

var entryRemedies = map[EntryState]string{
	StateForged:     "find out who else can write to the fleet's store: this edge restores its own entries",
	StateUnknownKey: "give all edges the same seal.keys",
	StateOldVersion: "find out whether the store was rolled back, or who else can write to it: this edge restores the entry",
}

func (s *Store) countRefusedEntry(f *lastSeenEntry, e Entry, blob string) {
	if f.blob == blob {
		return
	}
	f.blob = blob
	s.refusedCounters[e.State.String()].Inc()
	s.o.Log.Error("an entry of the fleet's certificates in the store is refused", zap.String("reason", e.State.String()),
		zap.String("entry", string(e.Kind)), zap.String("domain", e.Name), zap.String("remedy", entryRemedies[e.State]))
}

var errTooLong = errors.New("the entry is too long to be sealed")

// Put replaces an entry returned by Changes. If another edge has changed the entry since then, it
// returns ErrChanged.
func (s *Store) Put(ctx context.Context, e Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(ctx, e)
}

// putLocked does the work of Put. The caller must hold mu.
func (s *Store) putLocked(ctx context.Context, e Entry) error {
	name := fieldName(e.Kind, e.Name)
	f := s.findLastSeen(name)
	version := max(f.version+1, uint64(time.Now().UnixMicro()))
	plain := append(strconv.AppendUint(nil, version, 10), ' ')
	var result seal.Result
	blob, ok := s.entrySealBox(name, &result).Seal(nil, append(plain, e.Text...))
	if !ok {
		return errTooLong
	}
	words, err := s.runScript(ctx, putScript, 1, name, f.changeNumber, string(blob), milliseconds(entriesTTL))
	switch {
	case err != nil:
		return err
	case words[0] == "changed":
		return ErrChanged
	}
	f.changeNumber, f.version, f.blob = words[0], version, ""
	return nil
}

// ClaimLock requests a lock for the duration LockLeaseDuration. The holder renews the lock by calling
// ClaimLock again before the lease expires on the store's clock.
func (s *Store) ClaimLock(ctx context.Context, name string) (granted bool, err error) {
	words, err := s.runScript(ctx, claimScript, 1, name, s.o.Edge, milliseconds(LockLeaseDuration), milliseconds(entriesTTL))
	return err == nil && words[0] == "granted", err
}

// ReleaseLock releases a lock.
func (s *Store) ReleaseLock(ctx context.Context, name string) error {
	_, err := s.runScript(ctx, releaseScript, 1, name, s.o.Edge)
	return err
}
