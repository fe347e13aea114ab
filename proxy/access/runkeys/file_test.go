package runkeys

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"penstock/config"
)

// user is an edge that uses a file.
type user struct {
	*KeyFile
	mu  sync.Mutex
	ids []string
}

func (u *user) inUse() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return strings.Join(u.ids, " ")
}

func openFile(t *testing.T, path string) *user {
	t.Helper()
	u := new(user)
	f, err := OpenFile(FileOptions{Path: path, Log: zap.NewNop(), Use: func(keys []config.Key) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.ids = nil
		for i := range keys {
			u.ids = append(u.ids, keys[i].ID)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	u.KeyFile = f
	return u
}

func hashOf(id string) string { return config.HashPrefix + fmt.Sprintf("%064x", id) }

func (u *user) add(id string) error {
	return u.Update(context.Background(), id, func(old string) (string, error) {
		if old != "" {
			return "", errors.New("it is there")
		}
		return NewEntry(fmt.Appendf(nil, `{"id":%q}`, id), hashOf(id))
	})
}

func (u *user) remove(id string) error {
	return u.Update(context.Background(), id, func(string) (string, error) { return "", nil })
}

func (u *user) want(t *testing.T, ids string) {
	t.Helper()
	if got := u.inUse(); got != ids {
		t.Errorf("in use: %q, want %q", got, ids)
	}
}

// TestFile checks that a change is on disk and has taken effect when Update returns. An operator
// must be able to read the file, the file must contain only hashes, and the next edge must start
// with its keys.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made.yaml")
	u := openFile(t, path)
	u.want(t, "")
	for _, id := range []string{"b", "a", "c"} {
		if err := u.add(id); err != nil {
			t.Fatal(err)
		}
	}
	u.want(t, "b a c")
	if err := u.add("a"); err == nil || err.Error() != "it is there" {
		t.Errorf("an objection of the change: %v", err)
	}
	if err := u.remove("a"); err != nil {
		t.Fatal(err)
	}
	u.want(t, "b c")
	text, err := os.ReadFile(path)
	if err != nil || string(text) != fileContent(nil)[:strings.Index(fileContent(nil), "keys:")]+
		"keys:\n  - {\"id\":\"b\",\"hash\":\""+hashOf("b")+"\"}\n  - {\"id\":\"c\",\"hash\":\""+hashOf("c")+"\"}\n" {
		t.Errorf("the file: %v\n%s", err, text)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("its mode: %v, %v", info.Mode(), err)
	}
	u.Close() // same effect as killing the edge, which writes nothing when it exits
	openFile(t, path).want(t, "b c")
	if rest, _ := filepath.Glob(path + ".new"); rest != nil {
		t.Errorf("left behind: %v", rest)
	}
}

// TestTwoAtOnce checks that two operators can create keys at the same time. It also checks that two
// simultaneous changes to the same key are both applied.
func TestTwoAtOnce(t *testing.T) {
	u := openFile(t, filepath.Join(t.TempDir(), "made.yaml"))
	if err := u.add("shared"); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := u.add(fmt.Sprint("k", i)); err != nil {
				t.Error(err)
			}
			limit := []string{"concurrency", "requests_per_minute", "tokens_per_minute", "tokens_per_day"}[i%4]
			if err := u.Update(t.Context(), "shared", func(old string) (string, error) {
				return ChangeEntry(old, fmt.Appendf(nil, `{"limits":{%q:%d}}`, limit, 100+i))
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	entries, _ := u.Entries(t.Context())
	key, err := config.ParseKeyEntry(entries["shared"])
	if l := key.Limits; err != nil || len(entries) != 17 || l.Concurrency == 0 || l.RequestsPerMinute == 0 || l.TokensPerMinute == 0 || l.TokensPerDay == 0 {
		t.Errorf("%d keys, limits %+v, %v; want 17 keys and every limit set", len(entries), l, err)
	}
}

// TestTwoEdges checks that only one of two edges with the same file writes it. The other edge must
// adopt the changes, refuse to write, and become the writer after the first edge has exited.
func TestTwoEdges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "made.yaml")
	first, second := openFile(t, path), openFile(t, path)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { second.Run(ctx); close(ended) }()
	defer func() { stop(); <-ended }()
	for _, step := range []struct {
		do   func(string) error
		want string
	}{{first.add, "a"}, {first.remove, ""}} {
		if err := step.do("a"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(time.Minute); second.inUse() != step.want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the other edge has %q, want %q", second.inUse(), step.want)
			}
		}
	}
	if err := second.add("b"); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "another edge writes") {
		t.Errorf("the second one writes: %v", err)
	}
	first.Close()
	if err := second.add("b"); err != nil {
		t.Errorf("the first has ended: %v", err)
	}
	second.want(t, "b")
}

// TestBroken checks that an invalid file has no effect and is not overwritten, and that a missing
// file is recreated with all keys.
func TestBroken(t *testing.T) {
	good := fileContent([]keyEntry{{id: "a", text: `{"id":"a","hash":"` + hashOf("a") + `"}`}})
	for _, row := range []struct{ name, text, trouble string }{
		{"empty", "", ":1: the file lists no keys"},
		{"half a file", "# x\nkeys:\n", ":2: the file lists no keys"},
		{"no list", "id: a\n", ":1: edges write a key as"},
		{"a key of an operator", good + "  - id: b\n", ":5: edges write a key as"},
		{"no JSON", good + "  - {\"id\":\"b\"\n", ":5: "},
		{"no hash", good + "  - {\"id\":\"b\"}\n", ":5: hash: "},
		{"a variable", good + "  - {\"id\":\"b\",\"class\":\"${HOME}\"}\n", ":5: entry: "},
		{"twice", good + "  - {\"id\":\"a\",\"hash\":\"" + hashOf("b") + "\"}\n", ":5: the key \"a\" is in line 4, too"},
	} {
		t.Run(row.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "made.yaml")
			u := openFile(t, path)
			if err := u.add("kept"); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(row.text), 0o600); err != nil {
				t.Fatal(err)
			}
			u.reload()
			u.want(t, "kept")
			if err := u.add("b"); !errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), row.trouble) {
				t.Errorf("it was changed: %v", err)
			}
			if left, _ := os.ReadFile(path); string(left) != row.text {
				t.Errorf("it was written over: %s", left)
			}
			if _, err := OpenFile(FileOptions{Path: path, Log: zap.NewNop(), Use: func([]config.Key) {}}); err == nil {
				t.Error("an edge starts with it")
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			u.reload()
			u.want(t, "kept")
			if err := u.add("b"); err != nil {
				t.Fatal(err)
			}
			u.want(t, "kept b")
		})
	}
}

// TestUnwritable checks that as long as the file cannot be written, keys change neither on disk nor
// in the edge.
func TestUnwritable(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "made.yaml")
	u := openFile(t, path)
	if err := u.add("kept"); err != nil {
		t.Fatal(err)
	}
	// The obstacle is a folder, because even root cannot open a folder for writing.
	obstacle := path + ".new"
	if err := os.Mkdir(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := u.add("b"); err == nil || errors.Is(err, ErrReadOnly) || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("it was written: %v", err)
	}
	u.want(t, "kept")
	if _, err := OpenFile(FileOptions{Path: filepath.Join(dir, "none", "made.yaml"), Log: zap.NewNop(), Use: func([]config.Key) {}}); err == nil {
		t.Error("an edge starts without the folder")
	}
	if err := os.RemoveAll(obstacle); err != nil {
		t.Fatal(err)
	}
	if err := u.add("b"); err != nil {
		t.Fatal(err)
	}
	u.want(t, "kept b")
}
