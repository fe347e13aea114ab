//go:build unix

package agent

import (
	"syscall"
	"testing"
)

// TestWriteDoesNotWait checks that a pipe at the path of a file to write is neither read nor
// replaced. Reading the pipe would wait for a writer.
func TestWriteDoesNotWait(t *testing.T) {
	checkWriteRejects(t, func(path string) error { return syscall.Mkfifo(path, 0o600) })
}
