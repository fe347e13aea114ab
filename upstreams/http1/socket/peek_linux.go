package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peek is Recv that leaves what it reads where it is.
func Peek(fd uintptr, p []byte) (int, error) { return call(unix.SYS_RECVFROM, fd, p, unix.MSG_PEEK) }

// call is recvfrom or sendto without an address, which those of package unix would allocate. It never blocks, so the scheduler need
// not know of it.
func call(number, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|flags, 0, 0) //nolint:gosec // p outlives the call
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
