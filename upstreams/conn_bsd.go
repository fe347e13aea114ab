//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package upstreams

import "golang.org/x/sys/unix"

// peekByte looks at the first byte that waits in a socket.
func peekByte(fd uintptr, b *[1]byte) (int, error) {
	n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return n, err
}
