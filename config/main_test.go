package config

import (
	"os"
	"path/filepath"
	"testing"

	"penstock/config/testkit/golden"
)

// bundledProfiles replaces the bundled engine profiles, which are in another package.
var bundledProfiles = KnownProfiles{Engines: []string{
	"vllm", "sglang", "llamacpp", "ollama", "tgi", "trtllm", "lmstudio", "whisper", "speaches", "kokoro", "openai", "sim",
}, Continuing: []string{"vllm"}, Ordering: []string{"vllm", "sglang"}, Salting: []string{"vllm", "sglang", "trtllm"}, Fixed: []string{"vllm", "sglang", "tgi"}}

// unpack writes the files of an archive into the test's folder and changes into it, so that
// messages contain plain names.
func unpack(t *testing.T, a *golden.Archive) {
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
