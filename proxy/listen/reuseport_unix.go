//go:build unix

package listen

import "golang.org/x/sys/unix"

// setReusePort lets several sockets with this option be bound to the same address.
func setReusePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
