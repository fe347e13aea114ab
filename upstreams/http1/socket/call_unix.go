//go:build unix && (!linux || race)

package socket

import "syscall"

// Recv reads what has come into p, which must not be empty, and never waits: EAGAIN is the error then. 0 without an error is the
// end. The socket is one of the runtime's poller's, which do not block.
func Recv(fd uintptr, p []byte) (int, error) { return repeat(syscall.Read, fd, p) }

// Send writes as much of p, which must not be empty, as the socket takes, and never waits: EAGAIN is the error when that is
// nothing.
func Send(fd uintptr, p []byte) (int, error) { return repeat(syscall.Write, fd, p) }

func repeat(call func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		switch n, err := call(int(fd), p); err {
		case nil:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
