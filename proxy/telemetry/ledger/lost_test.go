package ledger

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

func warnings(t *testing.T, path string) string {
	t.Helper()
	core, logs := observer.New(zapcore.WarnLevel)
	e, err := openEdge(path, noon, func(o *Options) { o.Log = zap.New(core) })
	if err != nil {
		t.Fatal(err)
	}
	e.kill()
	var text strings.Builder
	for _, entry := range logs.All() {
		fmt.Fprintln(&text, entry.Message, entry.ContextMap())
	}
	return text.String()
}

// TestLossIsNamed checks that a ledger that has lost some or all rows is opened with a warning that
// names the loss.
func TestLossIsNamed(t *testing.T) {
	path := tempLedger(t)
	if w := warnings(t, path); w != "" {
		t.Errorf("a new ledger: %s", w)
	}
	e := mustOpen(t, path, noon)
	e.call("team-a", "m", 1)
	e.call("team-b", "m", 1)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Clone(text)
	at := bytes.Index(changed, []byte("team-a"))
	at += bytes.Index(changed[at:], []byte(`"calls":1`)) + len(`"calls":`)
	changed[at] ^= 2
	if w := warningsOf(t, path, changed); !strings.Contains(w, "key team-a, model m, 2026-11-22") || strings.Contains(w, "team-b") {
		t.Errorf("a changed row: %s", w)
	}
	// A later line for the same row contains the lost usage.
	whole := append(bytes.Clone(changed), bytes.SplitAfter(text, []byte("\n"))[1]...)
	whole = append(whole, bytes.SplitAfter(text, []byte("\n"))[2]...)
	if w := warningsOf(t, path, whole); !strings.Contains(w, "left_out:1") || strings.Contains(w, "team-") {
		t.Errorf("a changed row with a later one: %s", w)
	}
	if w := warningsOf(t, path, nil); !strings.Contains(w, "emptied or removed") {
		t.Errorf("an emptied ledger: %s", w)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if w := warnings(t, path); !strings.Contains(w, "emptied or removed") {
		t.Errorf("a removed ledger: %s", w)
	}
}

// warningsOf does the same as warnings for a ledger with the given text.
func warningsOf(t *testing.T, path string, text []byte) string {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return warnings(t, path)
}

// TestFolderWithoutRights checks that the error names the missing permission rather than the lock
// file that could not be created.
func TestFolderWithoutRights(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	path := tempLedger(t)
	if err := os.Chmod(filepath.Dir(path), 0o500); err != nil {
		t.Fatal(err)
	}
	f := ledgerFile{path: path}
	if _, err := f.open(); err == nil || !strings.Contains(err.Error(), "permission denied") || !strings.Contains(err.Error(), "right to write in") {
		t.Errorf("open: %v, want permission denied and its remedy", err)
	}
}
