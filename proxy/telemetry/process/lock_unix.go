//go:build unix

package process

import (
	"errors"
	"os"
	"syscall"
)

// LockFile locks a file until it is closed. If another process has locked the file, LockFile
// returns ErrFileLocked.
func LockFile(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrFileLocked
	}
	return err
}
