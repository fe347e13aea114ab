//go:build linux && !race

package socket

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv reads into p, which must not be empty. It never waits, and returns EAGAIN if nothing has
// arrived. At the end of the stream, it returns 0 without an error.
func Recv(fd uintptr, p []byte) (int, error) { return sendRecv(unix.SYS_RECVFROM, fd, p, 0) }

// Send writes as much of p as the socket accepts. p must not be empty. It never waits, and returns
// EAGAIN if the socket accepts nothing.
func Send(fd uintptr, p []byte) (int, error) {
	return sendRecv(unix.SYS_SENDTO, fd, p, unix.MSG_NOSIGNAL)
}

// maxPieces is the maximum number of pieces per system call.
const maxPieces = 16

// SendPieces is like Send for more than one piece. No piece may be empty. One call sends at most
// sendLimit bytes.
func SendPieces(fd uintptr, pieces [][]byte) (int, error) {
	if len(pieces) == 1 {
		return Send(fd, pieces[0][:min(len(pieces[0]), sendLimit)])
	}
	var vec [maxPieces]unix.Iovec
	count, left := 0, sendLimit
	for _, p := range pieces[:min(len(pieces), maxPieces)] {
		p = p[:min(len(p), left)]
		vec[count].Base = &p[0]
		vec[count].SetLen(len(p))
		count++
		if left -= len(p); left == 0 {
			break
		}
	}
	msg := unix.Msghdr{Iov: &vec[0]}
	msg.SetIovlen(count)
	for {
		n, _, errno := unix.RawSyscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&msg)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) //nolint:gosec // msg and pieces outlive the system call
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
