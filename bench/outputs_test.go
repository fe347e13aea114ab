package bench

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"penstock/bench/benchtest"
	"penstock/bench/exit"
	"penstock/bench/load"
)

func names(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Name())
	}
	return out
}

// TestOutputsAreCheckedBeforeTheLoad checks that an output path that cannot be written causes a
// one-line error before the first request is sent.
func TestOutputsAreCheckedBeforeTheLoad(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.Error(w, "{}", http.StatusNotFound)
	}))
	defer server.Close()
	dir := t.TempDir()
	file := filepath.Join(dir, "file.json")
	if err := os.WriteFile(file, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := filepath.Join(dir, "no", "x.json")
	for name, c := range map[string]RunCmd{
		"no folder":         {Options: load.Options{Output: []string{nowhere}}},
		"the second of two": {Options: load.Options{Output: []string{filepath.Join(dir, "first.json"), nowhere}}},
		"a file as folder":  {Options: load.Options{Output: []string{filepath.Join(file, "x.html")}}},
		"a folder as file":  {Options: load.Options{Output: []string{newFolder(t, dir, "folder.json")}}},
	} {
		c.BaseURL, c.Model, c.NumPrompts, c.NoFloor, c.Quiet = server.URL, "m", 1, true, true
		err := c.run(t.Context(), io.Discard, io.Discard)
		if benchtest.ExitCode(err) != exit.Usage || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "cannot be written") {
			t.Errorf("%s: %v, code %d; want a usage error of one line", name, err, benchtest.ExitCode(err))
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests were sent", n)
	}

	// All files can be written, but the target cannot be measured. The run must leave no new file
	// behind and must not change the old files.
	good := RunCmd{Options: load.Options{Output: []string{filepath.Join(dir, "a.json"), filepath.Join(dir, "a.html")}}}
	again := RunCmd{Options: load.Options{Output: []string{file}}}
	for _, c := range []RunCmd{good, again} {
		c.BaseURL, c.Model, c.NumPrompts, c.NoFloor, c.Quiet = server.URL, "m", 1, true, true
		before := asked.Load()
		if err := c.run(t.Context(), io.Discard, io.Discard); err == nil || strings.Contains(err.Error(), "written") || asked.Load() == before {
			t.Errorf("%v after %d requests: want an error of the target", err, asked.Load()-before)
		}
	}
	if got := strings.Join(names(t, dir), " "); got != "file.json folder.json" {
		t.Errorf("left behind: %s", got)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("a file that was there has now %q, %v", b, err)
	}
}

func newFolder(t *testing.T, dir, name string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.Mkdir(path, 0o750); err != nil {
		t.Fatal(err)
	}
	return path
}
