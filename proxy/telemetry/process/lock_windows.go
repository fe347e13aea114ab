package process

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// LockFile is the Windows version of LockFile in lock_unix.go. It locks a byte far beyond the end
// of the file, because other processes cannot read a locked byte.
func LockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 1, 0, &windows.Overlapped{OffsetHigh: 1 << 30})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrFileLocked
	}
	return err
}
