//go:build linux && !race

package socket

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// EnableTimestamps makes the kernel record when bytes arrive, for RecvTimestamped. Kernels before
// 5.1 and Unix sockets do not support this.
func EnableTimestamps(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, 1)
}

// timestampSize is the size of a timestamp in a control message: seconds and nanoseconds, each an
// int64.
const timestampSize = 16

// RecvTimestamped is like Recv, but also returns the time at which the last of the bytes arrived at
// this host. The time is in nanoseconds since 1970, or 0 if the kernel did not record the arrival.
func RecvTimestamped(fd uintptr, p []byte) (n int, at int64, err error) {
	var control [64]byte
	vec := unix.Iovec{Base: &p[0]}
	vec.SetLen(len(p))
	msg := unix.Msghdr{Iov: &vec, Control: &control[0]}
	msg.SetIovlen(1)
	msg.SetControllen(len(control))
	for {
		got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT) //nolint:gosec // msg and p outlive the system call
		switch errno {
		case 0:
			return int(got), parseTimestamp(control[:msg.Controllen]), nil
		case unix.EINTR:
		default:
			return 0, 0, errno
		}
	}
}

// parseTimestamp returns the timestamp in a control message.
func parseTimestamp(control []byte) int64 {
	data := unix.CmsgLen(0)
	if len(control) < data+timestampSize {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0])) //nolint:gosec // the kernel wrote a Cmsghdr
	if h.Level != unix.SOL_SOCKET || h.Type != unix.SO_TIMESTAMPNS_NEW {
		return 0
	}
	seconds, nanoseconds := binary.NativeEndian.Uint64(control[data:]), binary.NativeEndian.Uint64(control[data+8:])
	return int64(seconds)*1e9 + int64(nanoseconds)
}
