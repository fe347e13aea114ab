//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// Lock locks a file for this process until the file is closed. It does not wait: if another process
// has the lock, it returns ErrLocked.
func Lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
