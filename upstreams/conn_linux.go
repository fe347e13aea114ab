package upstreams

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// peekByte looks at the first byte that waits in a socket. It is on the path of every exchange, and unix.Recvfrom would
// allocate an address. The call never blocks, so the scheduler need not know of it.
func peekByte(fd uintptr, b *[1]byte) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, fd, uintptr(unsafe.Pointer(b)), 1, unix.MSG_PEEK|unix.MSG_DONTWAIT, 0, 0) //nolint:gosec // b outlives the call
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
