//go:build unix

package listen

import "golang.org/x/sys/unix"

// descriptors returns the limit on the process's open descriptors, or 0 if unknown. The Go runtime
// has already raised the soft limit to the hard one.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return int(min(uint64(limit.Cur), 1<<30)) //nolint:unconvert // signed on some systems
}

// setReusePort allows several sockets with this option to bind to the same address.
func setReusePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
