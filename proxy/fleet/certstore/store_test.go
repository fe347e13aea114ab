package certstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
)

type link struct{ client valkey.Client }

func (l link) Available() bool { return true }

func (l link) RunScript(ctx context.Context, script *valkey.Lua, key string, args []string) ([]valkey.ValkeyMessage, error) {
	return script.Exec(ctx, l.client, []string{"ps:{" + key + "}"}, args).ToArray()
}

type fleet struct {
	t     *testing.T
	redis *miniredis.Miniredis
	link  link
	now   time.Time
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	redis := miniredis.RunT(t)
	c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{redis.Addr()}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	f := &fleet{t: t, redis: redis, link: link{c}, now: time.Now()}
	f.advance(0)
	return f
}

func (f *fleet) advance(d time.Duration) {
	f.now = f.now.Add(d)
	f.redis.SetTime(f.now)
}

// edge returns an edge with the given secrets. If none are given, it uses the fleet's secrets.
func (f *fleet) edge(name string, secrets ...string) *Store {
	if len(secrets) == 0 {
		secrets = []string{strings.Repeat("k", 32)}
	}
	return New(Options{
		Link: f.link, Edge: name, Directory: "https://ca.test/directory", Secrets: func() []string { return secrets },
		Log: zap.NewNop(), Metrics: metrics.NewSet(),
	})
}

func (f *fleet) put(s *Store, kind EntryKind, name, text string) {
	f.t.Helper()
	if err := s.Put(f.t.Context(), Entry{Kind: kind, Name: name, Text: []byte(text)}); err != nil {
		f.t.Fatal(err)
	}
}

// read returns what an edge reads. Each line contains the kind, the name, and the text or state of
// an entry.
func (f *fleet) read(s *Store, all bool) (out []string, whole bool) {
	f.t.Helper()
	entries, whole, err := s.ReadChanges(f.t.Context(), all)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		what := string(e.Text)
		if e.State != StateGood {
			what = "!" + e.State.String()
		}
		out = append(out, fmt.Sprintf("%s %s %s", e.Kind, e.Name, what))
	}
	return out, whole
}

func (f *fleet) wantRead(s *Store, all, whole bool, want ...string) {
	f.t.Helper()
	got, isWhole := f.read(s, all)
	if fmt.Sprint(got) != fmt.Sprint(want) || isWhole != whole {
		f.t.Errorf("read %q, whole: %v; want %q, %v", got, isWhole, want, whole)
	}
}

const hashPrefix = "ps:{acme:" // followed by the directory

func (f *fleet) hash() string {
	for _, key := range f.redis.Keys() {
		if strings.HasPrefix(key, hashPrefix) {
			return key
		}
	}
	f.t.Fatal("the store has no entries")
	return ""
}

// TestChanges checks that an edge first reads all entries, and then only changed entries, including
// those that it wrote itself. This must work even if the entries do not fit into one answer. The
// store must contain only sealed entries.
func TestChanges(t *testing.T) {
	f := newFleet(t)
	a, b := f.edge("a"), f.edge("b")
	f.wantRead(b, false, true)
	f.put(a, EntryAccount, "", "secret text")
	f.wantRead(b, false, true, "account  secret text")
	f.wantRead(b, false, false)
	f.put(b, EntryCertificate, "a.test", "one")
	f.put(b, EntryCertificate, "a.test", "two")
	f.wantRead(b, false, false, "certificate a.test two")
	f.wantRead(a, false, true, "account  secret text", "certificate a.test two")
	f.wantRead(a, true, true, "account  secret text", "certificate a.test two")
	for i := range 3 * maxEntriesPerRead {
		f.put(a, EntryValue, fmt.Sprint(i), "x")
	}
	if got, whole := f.read(b, false); len(got) != 3*maxEntriesPerRead || whole {
		t.Errorf("%d entries, whole: %v", len(got), whole)
	}
	if got, whole := f.read(b, true); len(got) != 3*maxEntriesPerRead+2 || !whole {
		t.Errorf("%d entries, whole: %v", len(got), whole)
	}
	if strings.Contains(f.redis.Dump(), "secret text") || strings.Contains(f.redis.Dump(), "two") {
		t.Error("the store has an entry in the open")
	}
}

// TestPutReplacesWhatWasRead checks that only one of two simultaneous writes succeeds. The other
// edge must succeed after it has read the first edge's change.
func TestPutReplacesWhatWasRead(t *testing.T) {
	f := newFleet(t)
	a, b := f.edge("a"), f.edge("b")
	f.put(a, EntryAccount, "", "a's")
	late := Entry{Kind: EntryAccount, Text: []byte("b's")}
	if err := b.Put(t.Context(), late); !errors.Is(err, ErrChanged) {
		t.Errorf("written over what was not read: %v", err)
	}
	f.wantRead(b, false, true, "account  a's")
	if err := b.Put(t.Context(), late); err != nil {
		t.Error(err)
	}
	f.redis.FlushAll()
	f.advance(time.Second)
	f.wantRead(a, false, true)
	f.put(a, EntryAccount, "", "again")
	f.wantRead(b, false, false, "account  again")
}

// TestRefused checks that an entry that no edge has sealed is rejected and counted once. The same
// must be true if the entry was sealed for a different domain or directory, or with different keys,
// or if it is older than the known entry. It must be possible to replace a rejected entry.
func TestRefused(t *testing.T) {
	f := newFleet(t)
	a, b := f.edge("a"), f.edge("b")
	f.put(a, EntryCertificate, "a.test", "one")
	const field, other = "e:certificate:a.test", "e:certificate:b.test"
	first := f.redis.HGet(f.hash(), field)
	f.put(a, EntryCertificate, "a.test", "two")
	f.put(a, EntryCertificate, "b.test", "b's")
	f.wantRead(b, false, true, "certificate a.test two", "certificate b.test b's")
	number := 2e15
	set := func(field, value string) {
		number++
		_, blob, _ := strings.Cut(value, " ")
		f.redis.HSet(f.hash(), field, fmt.Sprintf("%.0f %s", number, blob), "n", fmt.Sprintf("%.0f", number))
	}
	set(field, first)
	f.wantRead(b, false, false, "certificate a.test !older")
	f.wantRead(b, true, true, "certificate b.test b's", "certificate a.test !older")
	set(field, f.redis.HGet(f.hash(), other))
	f.wantRead(b, false, false, "certificate a.test !forged")
	set(field, "1 no blob")
	f.wantRead(b, false, false, "certificate a.test !forged")
	f.put(b, EntryCertificate, "a.test", "right")
	f.wantRead(f.edge("c"), false, true, "certificate b.test b's", "certificate a.test right")
	strangers := f.edge("d", strings.Repeat("x", 32))
	f.wantRead(strangers, false, true, "certificate b.test !stale", "certificate a.test !stale")
	rotated := f.edge("e", strings.Repeat("x", 32), strings.Repeat("k", 32))
	f.wantRead(rotated, false, true, "certificate b.test b's", "certificate a.test right")
	for reason, want := range map[string]uint64{"forged": 2, "older": 1, "stale": 0} {
		if n := b.refusedCounters[reason].Get(); n != want {
			t.Errorf("%s: %d, want %d", reason, n, want)
		}
	}
	for _, garbage := range []string{"x", "-1", "1e300", "99999999999999999999"} {
		f.redis.HSet(f.hash(), "n", garbage)
		if _, _, err := b.ReadChanges(t.Context(), true); err != nil {
			t.Errorf("with the change number %s: %v", garbage, err)
		}
	}
}

// TestClaimLock checks that only one edge holds a lock at a time, and that another edge can acquire
// the lock after it has expired or was released.
func TestClaimLock(t *testing.T) {
	f := newFleet(t)
	a, b := f.edge("a"), f.edge("b")
	claim := func(s *Store, want bool) {
		t.Helper()
		if got, err := s.ClaimLock(t.Context(), "a.test"); err != nil || got != want {
			t.Errorf("%v, %v; want %v", got, err, want)
		}
	}
	claim(a, true)
	claim(b, false)
	f.advance(LockLeaseDuration / 2)
	claim(a, true) // a renews its lock
	f.advance(LockLeaseDuration / 2)
	claim(b, false)
	f.advance(LockLeaseDuration / 2)
	claim(b, true)
	claim(a, false)
	if err := errors.Join(a.ReleaseLock(t.Context(), "a.test"), b.ReleaseLock(t.Context(), "a.test")); err != nil {
		t.Fatal(err)
	}
	claim(a, true)
	f.advance(-24 * time.Hour) // sets the store's clock back
	claim(b, true)
}

// TestNewSecrets checks that all permanent entries are resealed ten minutes after the secrets have
// changed, so that the old secret can be removed.
func TestNewSecrets(t *testing.T) {
	f := newFleet(t)
	old, newer := strings.Repeat("k", 32), strings.Repeat("n", 32)
	f.put(f.edge("a", old), EntryCertificate, "a.test", "one")
	f.put(f.edge("a", old), EntryAccount, "", "key")
	b := f.edge("b", newer, old)
	f.wantRead(b, true, true, "certificate a.test one", "account  key")
	f.wantRead(f.edge("c", newer), true, true, "certificate a.test !stale", "account  !stale")
	b.secretsChanged = b.secretsChanged.Add(-resealDelay)
	f.read(b, true)
	f.wantRead(f.edge("c", newer), true, true, "certificate a.test one", "account  key")
	f.wantRead(b, false, false, "certificate a.test one", "account  key")
	before := f.redis.HGet(f.hash(), "n")
	if f.read(b, true); f.redis.HGet(f.hash(), "n") != before {
		t.Error("what is sealed by the new secret is sealed again")
	}
}
