//go:build linux && !race

package socket

import "golang.org/x/sys/unix"

// Recv reads into p, which must not be empty. It never waits: the error is EAGAIN when nothing has
// come. 0 without an error is the end.
func Recv(fd uintptr, p []byte) (int, error) { return sendRecv(unix.SYS_RECVFROM, fd, p, 0) }

// Send writes as much of p, which must not be empty, as the socket takes. It never waits: the error
// is EAGAIN when the socket takes nothing.
func Send(fd uintptr, p []byte) (int, error) {
	return sendRecv(unix.SYS_SENDTO, fd, p, unix.MSG_NOSIGNAL)
}
