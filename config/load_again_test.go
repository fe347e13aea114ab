//go:build unix

package config

import (
	"strings"
	"syscall"
	"testing"
)

// TestLoadAgainWaitsForNoPipe checks that a reload rejects a pipe, because reading it could block
// every later reload.
func TestLoadAgainWaitsForNoPipe(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := syscall.Mkfifo("config.yaml", 0o600); err != nil {
		t.Fatal(err)
	}
	f, problems, _ := LoadForReload("config.yaml", bundledProfiles)
	if f != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "is not a regular file") {
		t.Errorf("LoadForReload of a pipe = %v, want one problem about a regular file", problems)
	}
}
