//go:build linux && !race

package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv reads what has come into p, which must not be empty, and never waits: EAGAIN is the error then. 0 without an error is the
// end.
func Recv(fd uintptr, p []byte) (int, error) { return recvfrom(fd, p, 0) }

// Send writes as much of p, which must not be empty, as the socket takes, and never waits: EAGAIN is the error when that is
// nothing.
func Send(fd uintptr, p []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0) //nolint:gosec // p outlives the call
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
