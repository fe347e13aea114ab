//go:build unix

package listen

import (
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// descriptorLimit returns the maximum number of open descriptors, or 0 if it is unknown. The Go
// runtime has already raised the soft limit to the hard limit.
func descriptorLimit() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}

func setReusePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}

// limitSocketPermissions limits the permissions with which bind creates a Unix socket, so that no
// other user can connect before the final permissions are set. It has an effect only on Linux.
func limitSocketPermissions(fd uintptr, mode fs.FileMode) { _ = unix.Fchmod(int(fd), uint32(mode)) }

// lockSocketFolder prevents other edges from opening or removing Unix sockets in a folder until
// unlock is called. If the folder cannot be locked, the edge continues without a lock.
func lockSocketFolder(folder string) (unlock func()) {
	f, err := os.Open(folder)
	if err != nil {
		return func() {}
	}
	for range 100 { // other edges hold the lock only briefly
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != unix.EWOULDBLOCK {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return func() { _ = f.Close() }
}

func hasPendingConn(fd uintptr) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}
