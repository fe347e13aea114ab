//go:build unix && !linux

package socket

import "golang.org/x/sys/unix"

// Peek is like Recv, but leaves the bytes in the socket.
func Peek(fd uintptr, p []byte) (int, error) {
	for {
		n, _, err := unix.Recvfrom(int(fd), p, unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			return n, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}
