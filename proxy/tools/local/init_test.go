package local

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"penstock/config"
)

// TestInitWithoutAFolder checks that, if the file cannot be created, an error is reported before
// engines are queried or a key is printed.
func TestInitWithoutAFolder(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		filepath.Join(dir, "none", "edge.yaml"): "the folder " + filepath.Join(dir, "none") + " is not there: make it",
		filepath.Join(file, "edge.yaml"):        file + " is a file, not a folder",
		file:                                    file + " exists and is left as it is",
	} {
		to := ConfigDestination{File: name, Out: io.Discard, Notes: io.Discard}
		for what, err := range map[string]error{
			"init":   InitConfig(t.Context(), NamedEngines{URLs: []string{"http://127.0.0.1:1"}}, to),
			"import": ImportConfig(filepath.Join(dir, "nothing"), to),
		} {
			if err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s %s: %v, want %q", what, name, err, want)
			}
		}
	}
}

// TestSummaryCounts checks that the correct form, singular or plural, follows a number.
func TestSummaryCounts(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]config.File{
		"1 upstream, 1 model\n":   {Upstreams: make([]config.Upstream, 1), Models: make([]config.Model, 1)},
		"2 upstreams, 0 models\n": {Upstreams: make([]config.Upstream, 2)},
	} {
		var notes strings.Builder
		ConfigDestination{File: "-"}.printSummary(&notes, &f, "")
		if notes.String() != want {
			t.Errorf("%q, want %q", notes.String(), want)
		}
	}
}
