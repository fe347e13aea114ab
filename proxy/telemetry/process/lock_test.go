package process

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestLockFile checks that a locked file can be locked again only after the first owner has closed
// it.
func TestLockFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	var files [3]*os.File
	for i := range files {
		var err error
		if files[i], err = os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := LockFile(files[0]); err != nil {
		t.Fatal(err)
	}
	if err := LockFile(files[1]); !errors.Is(err, ErrFileLocked) {
		t.Errorf("locked twice: %v", err)
	}
	_ = files[0].Close()
	if err := LockFile(files[2]); err != nil {
		t.Errorf("after the first one: %v", err)
	}
}
