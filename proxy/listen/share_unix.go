//go:build unix

package listen

import "golang.org/x/sys/unix"

// sharePort lets other sockets that ask for it, too, be bound to the same address.
func sharePort(fd uintptr) error {
	return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
}
