package certstore

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"penstock/proxy/front/acme"
	"penstock/proxy/telemetry/guard"
)

// LockLeaseDuration is how long a lock lasts without renewal. If the holder dies, another edge can
// acquire the lock once the lease has expired.
const LockLeaseDuration = 10 * time.Second

const (
	leaseRenewInterval = LockLeaseDuration / 5
	// An edge abandons its order this long before the lease expires.
	leaseMargin    = time.Second
	lockRetryPause = 500 * time.Millisecond // pause between two attempts to acquire a lock
	storeTimeout   = 2 * time.Second        // maximum time that Storage waits for the store
)

// Storage implements certmagic.Storage with the fleet's store. It caches all entries, and reads
// only changes from the store. Its methods may be called by multiple goroutines.
type Storage struct {
	store *Store
	guard *guard.Guard

	mu     sync.Mutex
	values map[string]storedValue // keyed by certmagic key
	// Entries written by program versions without certmagic, keyed by kind and name.
	legacyEntries map[string]storedValue
	heldLocks     map[string]func() // keyed by lock name; each function stops the renewal of the lock
}

type storedValue struct {
	text      []byte    // nil if sealed with a key that this edge does not have
	updatedAt time.Time // when this edge last read or wrote the value
}

var _ acme.FleetStore = (*Storage)(nil)

// NewStorage returns a Storage that uses s.
func NewStorage(s *Store, g *guard.Guard) *Storage {
	return &Storage{store: s, guard: g, values: map[string]storedValue{}, legacyEntries: map[string]storedValue{}, heldLocks: map[string]func(){}}
}

// Available reports whether the store can be reached.
func (s *Storage) Available() bool { return s.store.Available() }

// adoptChanges adopts the changes in the store. The caller must hold mu.
func (s *Storage) adoptChanges(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	entries, whole, err := s.store.ReadChanges(ctx, false)
	if err != nil {
		return err
	}
	if whole {
		clear(s.values)
		clear(s.legacyEntries)
	}
	for _, e := range entries {
		at, into := string(e.Kind)+":"+e.Name, s.legacyEntries
		if e.Kind == EntryValue {
			at, into = e.Name, s.values
		}
		switch {
		case e.State == StateUnknownKey:
			into[at] = storedValue{nil, time.Now()}
		case e.State != StateGood || len(e.Text) == 0: // another edge will restore a rejected entry
			delete(into, at)
		default:
			into[at] = storedValue{e.Text, time.Now()}
		}
	}
	return nil
}

// LegacyData implements acme.FleetStore.
func (s *Storage) LegacyData(ctx context.Context) (account []byte, certificates map[string][]byte, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adoptChanges(ctx); err != nil {
		return nil, nil, err
	}
	certificates = map[string][]byte{}
	for at, v := range s.legacyEntries {
		if name, ok := strings.CutPrefix(at, string(EntryCertificate)+":"); ok && v.text != nil {
			certificates[name] = v.text
		}
	}
	return s.legacyEntries[string(EntryAccount)+":"].text, certificates, nil
}

// Load implements certmagic.Storage.
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adoptChanges(ctx); err != nil {
		return nil, err
	}
	v, ok := s.values[key]
	switch {
	case !ok:
		return nil, fs.ErrNotExist
	case v.text == nil:
		return nil, errUnknownSealKeys
	}
	return v.text, nil
}

var errUnknownSealKeys = errors.New("the fleet's store has it sealed by keys that this edge does not have: give all edges the same seal.keys")

// Store implements certmagic.Storage.
func (s *Storage) Store(ctx context.Context, key string, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.putLocked(ctx, key, text)
}

// putLocked writes a value. An empty text deletes it. The caller must hold mu.
func (s *Storage) putLocked(ctx context.Context, key string, text []byte) (err error) {
	for range 5 {
		if err = s.adoptChanges(ctx); err != nil {
			return err
		}
		asking, cancel := context.WithTimeout(ctx, storeTimeout)
		err = s.store.Put(asking, Entry{Kind: EntryValue, Name: key, Text: text})
		cancel()
		if !errors.Is(err, ErrChanged) {
			break
		}
	}
	if err != nil {
		return err
	}
	if len(text) == 0 {
		delete(s.values, key)
		return nil
	}
	s.values[key] = storedValue{text, time.Now()}
	return nil
}

// Delete implements certmagic.Storage.
func (s *Storage) Delete(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adoptChanges(ctx); err != nil {
		return err
	}
	for at := range s.values {
		if at == key || strings.HasPrefix(at, key+"/") {
			if err := s.putLocked(ctx, at, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// Exists implements certmagic.Storage.
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// List implements certmagic.Storage.
func (s *Storage) List(ctx context.Context, path string, recursive bool) (keys []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adoptChanges(ctx); err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for at := range s.values {
		rest, ok := strings.CutPrefix(at, path+"/")
		if !ok {
			continue
		}
		if first, _, deeper := strings.Cut(rest, "/"); deeper && !recursive {
			at = path + "/" + first
		}
		if !seen[at] {
			seen[at] = true
			keys = append(keys, at)
		}
	}
	if len(keys) == 0 {
		return nil, fs.ErrNotExist
	}
	return keys, nil
}

// Stat implements certmagic.Storage.
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.adoptChanges(ctx); err != nil {
		return certmagic.KeyInfo{}, err
	}
	if v, ok := s.values[key]; ok {
		return certmagic.KeyInfo{Key: key, Modified: v.updatedAt, Size: int64(len(v.text)), IsTerminal: true}, nil
	}
	for at := range s.values {
		if strings.HasPrefix(at, key+"/") {
			return certmagic.KeyInfo{Key: key}, nil
		}
	}
	return certmagic.KeyInfo{}, fs.ErrNotExist
}

// Lock implements certmagic.Locker. Storage renews the lock until Unlock is called. If the renewal
// keeps failing, Storage cancels the order that holds the lock, because another edge may acquire
// the lock and place its own order.
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		granted, err := s.TryLock(ctx, name)
		if granted || err != nil {
			return err
		}
		select {
		case <-time.After(lockRetryPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// TryLock implements certmagic.TryLocker.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	s.mu.Lock()
	_, mine := s.heldLocks[name]
	s.mu.Unlock()
	if mine { // the store would grant the lock to the same edge a second time
		return false, nil
	}
	sent := time.Now()
	granted, err := s.claimLock(ctx, name)
	if err != nil || !granted {
		return false, err
	}
	keeping, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	s.mu.Lock()
	s.heldLocks[name] = func() { end(); <-ended }
	s.mu.Unlock()
	go s.guard.RunWithRecover(guard.PlaceACME, func() {
		defer close(ended)
		whole := false
		defer func() {
			if !whole { // the renewal has panicked
				acme.ReportLockLoss(ctx, ErrLockLost)
			}
		}()
		s.renewLock(keeping, ctx, name, sent)
		whole = true
	})
	return true, nil
}

func (s *Storage) claimLock(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.store.ClaimLock(ctx, name)
}

// renewLock renews a lock until ctx is done. If the lock is lost, renewLock cancels the attempt
// that holds it.
func (s *Storage) renewLock(ctx, attempt context.Context, name string, good time.Time) {
	tick := time.NewTicker(leaseRenewInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		sent := time.Now()
		granted, err := s.claimLock(ctx, name)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && granted:
			good = sent
		case err == nil || time.Since(good) > LockLeaseDuration-leaseMargin-leaseRenewInterval:
			acme.ReportLockLoss(attempt, ErrLockLost)
			return
		}
	}
}

// Unlock implements certmagic.Locker.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	end := s.heldLocks[name]
	delete(s.heldLocks, name)
	s.mu.Unlock()
	if end != nil {
		end()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	return s.store.ReleaseLock(ctx, name)
}
