package config

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/tools/txtar"
)

// update rewrites golden files: go test ./config -update.
var update = flag.Bool("update", false, "rewrite golden files and schema.json")

// bundled stands in for the profiles that live outside the package.
var bundled = Known{Engines: []string{
	"vllm", "sglang", "llamacpp", "ollama", "tgi", "trtllm", "lmstudio", "whisper", "speaches", "kokoro", "openai", "sim",
}}

// unpack writes the files of an archive into a folder of the test's own and goes there, so that messages hold plain names.
func unpack(t *testing.T, a *txtar.Archive) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, f := range a.Files {
		write(t, f.Name, f.Data)
	}
}

func write(t *testing.T, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// section returns the file of an archive that is called name.
func section(a *txtar.Archive, name string) (*txtar.File, bool) {
	for i := range a.Files {
		if a.Files[i].Name == name {
			return &a.Files[i], true
		}
	}
	return nil, false
}
