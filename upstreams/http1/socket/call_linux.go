//go:build linux && !race

package socket

import "golang.org/x/sys/unix"

// Recv reads what has come into p, which must not be empty, and never waits: EAGAIN is the error then. 0 without an error is the
// end.
func Recv(fd uintptr, p []byte) (int, error) { return call(unix.SYS_RECVFROM, fd, p, 0) }

// Send writes as much of p, which must not be empty, as the socket takes, and never waits: EAGAIN is the error when that is
// nothing.
func Send(fd uintptr, p []byte) (int, error) { return call(unix.SYS_SENDTO, fd, p, unix.MSG_NOSIGNAL) }
