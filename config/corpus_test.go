package config

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/config/testkit/golden"
)

// TestBadCorpus compares the output for every mistake with the exact text that an operator sees. In
// each archive, the comment describes the mistake, the file `env` contains NAME=value lines, and
// the file `want` contains the output. The test checks config.yaml in a folder that contains all
// files of the archive. If an archive contains five or two mistakes, its comment starts with "Five
// mistakes" or "Two mistakes". If the configuration is usable, the comment starts with "Warning".
func TestBadCorpus(t *testing.T) {
	golden.RunArchives(t, "testdata/bad", func(t *testing.T, a *golden.Archive) {
		unpack(t, a)
		for line := range strings.Lines(string(a.Section("env"))) {
			key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
			t.Setenv(key, value)
		}
		f, problems := LoadValid("config.yaml", bundledProfiles)
		warnings := bytes.HasPrefix(a.Comment, []byte("Warning:"))
		if (f == nil) == warnings || (problems.Err() == nil) != warnings {
			t.Errorf("file %v, err %v", f != nil, problems.Err())
		}
		want := 1
		if first, _, ok := strings.Cut(string(a.Comment), " mistakes"); ok {
			want = map[string]int{"Seventeen": 17, "Nine": 9, "Eight": 8, "Five": 5, "Four": 4, "Two": 2}[first]
		}
		if got := len(problems); got != want {
			t.Errorf("%d problems, want %d", got, want)
		}
		if strings.Contains(problems.Error(), "CANARY") {
			t.Errorf("the output shows a secret:\n%s", problems)
		}
		a.SetSection("want", []byte(problems.Error()+"\n"))
	})
}

// TestGoodCorpus checks that no problems are reported for valid files.
func TestGoodCorpus(t *testing.T) {
	files, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("found %d files (error %v), want at least 5", len(files), err)
	}
	t.Setenv("GOOD_HOST", "10.0.0.9")
	t.Setenv("GOOD_LIMIT", "77")
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			src, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			f, problems := ParseValid(name, src, bundledProfiles)
			if f == nil || len(problems) > 0 {
				t.Errorf("a valid file has problems:\n%s", problems)
			}
		})
	}
}
