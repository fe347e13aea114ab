package certstore

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"penstock/proxy/front/acme"
)

// TestStorage checks that an edge can load, list and delete what another edge has stored, and that
// the store contains only sealed data.
func TestStorage(t *testing.T) {
	f := newFleet(t)
	a, b := NewStorage(f.edge("a"), nil), NewStorage(f.edge("b"), nil)
	ctx := t.Context()
	for key, text := range map[string]string{"x/a/1": "secret one", "x/a/2": "secret two", "x/b": "b", "y": "y"} {
		if err := a.Store(ctx, key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := b.Load(ctx, "x/a/1"); err != nil || string(text) != "secret one" {
		t.Errorf("Load = %q, %v; want secret one", text, err)
	}
	list := func(path string, recursive bool) string {
		keys, err := b.List(ctx, path, recursive)
		if err != nil {
			return err.Error()
		}
		slices.Sort(keys)
		return strings.Join(keys, " ")
	}
	for got, want := range map[string]string{
		list("x", false): "x/a x/b", list("x", true): "x/a/1 x/a/2 x/b", list("z", false): fs.ErrNotExist.Error(),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if info, err := b.Stat(ctx, "x/a"); err != nil || info.IsTerminal {
		t.Errorf("Stat of a directory = %+v, %v; want one that is not terminal", info, err)
	}
	if err := b.Delete(ctx, "x/a"); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Load(ctx, "x/a/2"); !errors.Is(err, fs.ErrNotExist) || a.Exists(ctx, "x/a") || !a.Exists(ctx, "x/b") {
		t.Errorf("after the deletion: %v", err)
	}
	if err := errors.Join(b.Store(ctx, "y", []byte("b's")), a.Store(ctx, "y", []byte("a's"))); err != nil {
		t.Fatal(err)
	}
	if text, err := b.Load(ctx, "y"); err != nil || string(text) != "a's" {
		t.Errorf("the last one has not won: %q, %v", text, err)
	}
	if strings.Contains(f.redis.Dump(), "secret") {
		t.Error("the store has a value in the open")
	}
	strangers := NewStorage(f.edge("c", strings.Repeat("x", 32)), nil)
	if _, err := strangers.Load(ctx, "y"); !errors.Is(err, errUnknownSealKeys) || !strangers.Exists(ctx, "y") {
		t.Errorf("with other seals: %v", err)
	}
	f.redis.FlushAll()
	if a.Exists(ctx, "y") {
		t.Error("a value of a store that was emptied is there")
	}
}

// TestStorageLock checks that a second edge waits for a lock, and that a second attempt at the same edge
// waits as well. If a lock is lost, the attempt that holds it must be canceled.
func TestStorageLock(t *testing.T) {
	f := newFleet(t)
	a, b := NewStorage(f.edge("a"), nil), NewStorage(f.edge("b"), nil)
	if err := a.Lock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Storage{a, b} {
		if ok, err := s.TryLock(t.Context(), "x"); ok || err != nil {
			t.Errorf("TryLock of a held lock = %v, %v; want false", ok, err)
		}
	}
	waiting, end := context.WithCancel(t.Context())
	end()
	if err := b.Lock(waiting, "x"); err == nil {
		t.Error("a lock was given to one that has gone")
	}
	if err := a.Unlock(t.Context(), "x"); err != nil {
		t.Fatal(err)
	}
	attempt, lose := context.WithCancelCause(t.Context())
	defer lose(nil)
	if err := b.Lock(acme.WithLockLossCancel(attempt, lose), "x"); err != nil {
		t.Fatal(err)
	}
	f.advance(2 * LockLeaseDuration)
	if ok, err := a.TryLock(t.Context(), "x"); !ok || err != nil {
		t.Fatalf("TryLock after the lease = %v, %v; want true", ok, err)
	}
	select {
	case <-attempt.Done():
	case <-time.After(time.Minute):
	}
	if !errors.Is(context.Cause(attempt), ErrLockLost) {
		t.Errorf("the attempt goes on: %v", context.Cause(attempt))
	}
	if err := errors.Join(a.Unlock(t.Context(), "x"), b.Unlock(t.Context(), "x")); err != nil {
		t.Error(err)
	}
}

func TestBefore(t *testing.T) {
	f := newFleet(t)
	old := f.edge("a")
	f.put(old, EntryAccount, "", "key")
	f.put(old, EntryCertificate, "a.test", "pair")
	account, certificates, err := NewStorage(f.edge("b"), nil).LegacyData(t.Context())
	if err != nil || string(account) != "key" || len(certificates) != 1 || string(certificates["a.test"]) != "pair" {
		t.Errorf("account %q, certificates %q, %v; want key and the pair of a.test", account, certificates, err)
	}
}
