package keystore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"
	"go.uber.org/zap"
	"pgregory.net/rapid"

	"penstock/config"
)

const secret = "0123456789abcdef0123456789abcdef"

func dial(t testing.TB, address string) valkey.Client {
	t.Helper()
	c, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true, DisableRetry: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// edge contains an edge's Keys, without the goroutines that follow the store.
type edge struct {
	*Keys
	mu     sync.Mutex
	inUse  []string
	client valkey.Client
}

func newEdge(t testing.TB, client valkey.Client, copyFile string) *edge {
	t.Helper()
	e := &edge{client: client}
	e.Keys = New(Options{
		Secrets: []string{secret}, Client: func() (valkey.Client, error) { return client, nil }, Prefix: "ps", Cache: copyFile,
		Use: func(keys []config.Key) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.inUse = nil
			for i := range keys {
				e.inUse = append(e.inUse, keys[i].ID)
			}
		},
		Log: zap.NewNop(), Metrics: metrics.NewSet(),
	})
	return e
}

func (e *edge) ids() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.inUse, " ")
}

func (e *edge) readAll(t testing.TB) {
	t.Helper()
	e.lastChange = "unknown"
	if err := e.readEntries(t.Context(), e.client); err != nil {
		t.Fatal(err)
	}
}

func fields(id string) map[string]any {
	return map[string]any{"id": id, "hash": "sha256:" + fmt.Sprintf("%064x", id), "limits": map[string]int{"concurrency": 3}}
}

func mustAdd(t testing.TB, w *Writer, id string) {
	t.Helper()
	if err := w.Add(t.Context(), fields(id)); err != nil {
		t.Fatal(err)
	}
}

// TestKeys checks that a new key is accepted, that a revoked key is rejected, and that the id of a
// revoked key can be used again.
func TestKeys(t *testing.T) {
	store := miniredis.RunT(t)
	client := dial(t, store.Addr())
	defer client.Close()
	w, e := NewWriter(client, "ps", []string{secret}), newEdge(t, client, "")
	e.readIfChanged(t.Context())
	if e.ids() != "" || !e.isReady() {
		t.Errorf("an empty store gives %q, ready %v", e.ids(), e.isReady())
	}
	mustAdd(t, w, "b")
	mustAdd(t, w, "a")
	if e.readIfChanged(t.Context()); e.ids() != "a b" {
		t.Errorf("in force: %q", e.ids())
	}
	if err := w.Add(t.Context(), fields("a")); err == nil || !strings.Contains(err.Error(), "revoke it first") {
		t.Errorf("a second key of one id: %v", err)
	}
	if err := w.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if e.readIfChanged(t.Context()); e.ids() != "b" {
		t.Errorf("in force after the revocation: %q", e.ids())
	}
	for id, want := range map[string]string{"a": "already", "c": "no key"} {
		if err := w.Revoke(t.Context(), id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Revoke(%s): %v, want an error with %q", id, err, want)
		}
	}
	mustAdd(t, w, "a")
	if e.readIfChanged(t.Context()); e.ids() != "a b" {
		t.Errorf("in force after a new key of the id: %q", e.ids())
	}
	if err := w.Add(t.Context(), map[string]any{"id": "x", "hash": "plain"}); err == nil {
		t.Error("what is no key is put into the store")
	}
	all, err := w.List(t.Context())
	if err != nil || len(all) != 2 || !strings.HasPrefix(all[0].String(), "a  in force") {
		t.Errorf("List = %v, %v; want 2 keys, the first a in force", all, err)
	}
}

// TestForged checks that entries written without the secret are rejected, and that the last valid
// keys remain in use.
func TestForged(t *testing.T) {
	store := miniredis.RunT(t)
	client := dial(t, store.Addr())
	defer client.Close()
	w, e := NewWriter(client, "ps", []string{secret}), newEdge(t, client, "")
	mustAdd(t, w, "a")
	first := store.HGet("ps:{keys}", "k:a")
	if err := w.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	mustAdd(t, w, "a")
	last := store.HGet("ps:{keys}", "k:a")
	mustAdd(t, w, "b")
	e.readAll(t)
	stranger := NewWriter(client, "ps", []string{strings.Repeat("x", 32)})
	refused := func(reason string) uint64 { return e.refused[reason].Get() }
	for what, c := range map[string]struct{ id, raw, reason string }{
		"another secret's":  {"c", signEntry(strings.Repeat("x", 32), "c", 1e18, `{"id":"c"}`), entryForged},
		"cut":               {"a", last[:len(last)-1], entryForged},
		"empty":             {"a", "", entryForged},
		"to another id":     {"d", last, entryForged},
		"a raised limit":    {"a", strings.Replace(last, `"concurrency":3`, `"concurrency":9`, 1), entryForged},
		"a raised version":  {"a", strings.Replace(last, "1 1", "1 9", 1), entryForged},
		"an older one":      {"a", first, entryOldVersion},
		"signed, but wrong": {"e", signEntry(secret, "e", 5, `{"id":"f"}`), entryBroken},
		"signed, no JSON":   {"g", signEntry(secret, "g", 5, `{`), entryBroken},
	} {
		before := refused(c.reason)
		store.HSet("ps:{keys}", "k:"+c.id, c.raw)
		e.readAll(t)
		e.readAll(t)
		if got := refused(c.reason) - before; got != 1 {
			t.Errorf("%s: counted %d times as %s", what, got, c.reason)
		}
		if e.ids() != "a b" || e.entries["a"].raw != last {
			t.Errorf("%s: in force: %q", what, e.ids())
		}
		store.HDel("ps:{keys}", "k:"+c.id)
		e.readAll(t) // restores a missing entry
		if store.HGet("ps:{keys}", "k:a") != last {
			t.Errorf("%s: the store has not the last entry again", what)
		}
	}
	store.HSet("ps:{keys}", "k:a", first) // an older entry, written without a new change number
	e.readAll(t)
	if store.HGet("ps:{keys}", "k:a") != last {
		t.Error("an older entry stays in the store")
	}
	store.FlushAll()
	e.readAll(t)
	if store.HGet("ps:{keys}", "k:a") != last || e.ids() != "a b" {
		t.Errorf("after the store was emptied: %q", e.ids())
	}
	// The stranger cannot verify b's entry.
	if err := stranger.Revoke(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if e.readAll(t); e.ids() != "a b" {
		t.Errorf("a stranger has revoked a key: %q", e.ids())
	}
	if err := w.Revoke(t.Context(), "b"); err != nil { // replaces the stranger's entry
		t.Fatal(err)
	}
	if e.readAll(t); e.ids() != "a" {
		t.Errorf("in force: %q", e.ids())
	}
}

// TestForgedIDs checks that an edge remembers a forged entry only as long as the entry is in the
// store. Otherwise, an attacker could fill the edge's memory with forged entries under new ids.
func TestForgedIDs(t *testing.T) {
	e := newEdge(t, nil, "")
	for i := range 10 {
		e.adoptEntries(map[string]string{fmt.Sprint(i): strings.Repeat("x", 1000), "same": "forged"}, nil)
	}
	if len(e.lastRefused) != 2 || e.refused[entryForged].Get() != 11 {
		t.Errorf("%d entries are remembered, %d were counted", len(e.lastRefused), e.refused[entryForged].Get())
	}
}

// TestCacheFile checks that an edge with a copy of the entries can start without the store, and that it
// verifies the entries in the copy.
func TestCacheFile(t *testing.T) {
	store := miniredis.RunT(t)
	client := dial(t, store.Addr())
	defer client.Close()
	name := filepath.Join(t.TempDir(), "keys.copy")
	w, first := NewWriter(client, "ps", []string{secret}), newEdge(t, client, name)
	if first.isReady() {
		t.Error("an edge without a copy is ready before it has read the store")
	}
	mustAdd(t, w, "a")
	mustAdd(t, w, "b")
	first.readIfChanged(t.Context())
	if again := newEdge(t, client, name); !again.isReady() || again.ids() != "a b" {
		t.Errorf("with the copy: %q, ready %v", again.ids(), again.isReady())
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("Stat = %v, %v; want mode 0600", info, err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(text), `concurrency\":3`, `concurrency\":9`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := newEdge(t, client, name); again.ids() != "a" && again.ids() != "b" {
		t.Errorf("with a changed copy: %q", again.ids())
	}
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if again := newEdge(t, client, name); again.isReady() {
		t.Error("an edge with half a copy is ready")
	}
}

// TestOlderEntriesAreRefused checks that an edge never uses an unsigned entry and never returns to an older
// entry, no matter what the store contains.
func TestOlderEntriesAreRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := New(Options{Secrets: []string{secret}, Use: func([]config.Key) {}, Log: zap.NewNop(), Metrics: metrics.NewSet()})
		signed := map[string]bool{} // entries signed by the operator
		var history []entry
		version := uint64(0)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "id")
			body := revokedBody
			if rapid.Bool().Draw(t, "in force") {
				body = `{"id":"` + id + `","hash":"sha256:` + fmt.Sprintf("%064x", id) + `"}`
			}
			version++
			raw := signEntry(secret, id, version, body)
			signed[id+raw] = true
			history = append(history, entry{id: id, version: version, raw: raw})
			shown := map[string]string{}
			for range rapid.IntRange(0, 3).Draw(t, "shown") {
				e := history[rapid.IntRange(0, len(history)-1).Draw(t, "entry")]
				raw := e.raw
				if rapid.IntRange(0, 3).Draw(t, "damage") == 0 {
					at := rapid.IntRange(0, len(raw)-1).Draw(t, "at")
					raw = raw[:at] + string(rapid.Byte().Draw(t, "byte")) + raw[at+1:]
				}
				shown[rapid.SampledFrom([]string{"a", "b"}).Draw(t, "as")] = raw
			}
			before := map[string]uint64{}
			for id, e := range k.entries {
				before[id] = e.version
			}
			k.adoptEntries(shown, func(id, expected, raw string) {
				if raw != k.entries[id].raw || expected != shown[id] {
					t.Fatalf("an entry is put right by another one")
				}
			})
			for id, e := range k.entries {
				if e.version < before[id] {
					t.Fatalf("%s went back from %d to %d", id, before[id], e.version)
				}
				if !signed[id+e.raw] {
					t.Fatalf("%s is taken and was not signed: %q", id, e.raw)
				}
			}
		}
	})
}

// TestTriggerRead checks that an edge learns of a revocation immediately from a message, and within a
// second if the message is lost. While the store is unreachable, the keys must remain valid.
func TestTriggerRead(t *testing.T) {
	store := miniredis.RunT(t)
	client, other := dial(t, store.Addr()), dial(t, store.Addr())
	defer client.Close()
	defer other.Close()
	w, e := NewWriter(other, "ps", []string{secret}), newEdge(t, client, "")
	ctx, stop := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	loops.Go(func() { e.Listen(ctx) })
	defer func() { stop(); loops.Wait() }()
	for i := range 400 { // repeats until the edge listens
		store.Publish("ps:{keys}", "0")
		if len(e.readNow) > 0 {
			break
		}
		if i == 399 {
			t.Fatal("a message is not heard")
		}
		time.Sleep(25 * time.Millisecond)
	}
	<-e.readNow
	mustAdd(t, w, "a")
	select {
	case <-e.readNow:
	case <-time.After(10 * time.Second):
		t.Fatal("a change is not published")
	}
}

// TestForgedChangeNumber checks that a revocation takes effect at the next read, no matter what
// another writer has written as the change number.
func TestForgedChangeNumber(t *testing.T) {
	for _, number := range []string{"1e300", "1e15", "9007199254740993", "99999999999999999999", "-1", "-1e300", "nan", "inf", "text"} {
		store := miniredis.RunT(t)
		client := dial(t, store.Addr())
		w, e := NewWriter(client, "ps", []string{secret}), newEdge(t, client, "")
		mustAdd(t, w, "a")
		mustAdd(t, w, "b")
		store.HSet("ps:{keys}", changeField, number)
		e.readIfChanged(t.Context())
		for _, id := range []string{"a", "b"} {
			if err := w.Revoke(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			if e.readIfChanged(t.Context()); strings.Contains(e.ids(), id) {
				t.Errorf("%s: in force after the revocation of %s: %q", number, id, e.ids())
			}
		}
		client.Close()
	}
}
