package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Peek is like Recv, but leaves the bytes in the socket.
func Peek(fd uintptr, p []byte) (int, error) {
	return sendRecv(unix.SYS_RECVFROM, fd, p, unix.MSG_PEEK)
}

// sendRecv calls recvfrom or sendto without an address. Package unix would allocate an address.
// RawSyscall6 bypasses the scheduler, which is safe because the call never blocks.
func sendRecv(number, fd uintptr, p []byte, flags uintptr) (int, error) {
	for {
		n, _, errno := unix.RawSyscall6(number, fd, uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), unix.MSG_DONTWAIT|flags, 0, 0) //nolint:gosec // p outlives the system call
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
