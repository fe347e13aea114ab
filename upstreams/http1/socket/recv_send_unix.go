//go:build unix && (!linux || race)

package socket

import "syscall"

// Recv reads into p, which must not be empty. It never waits: the error is EAGAIN when nothing has
// come. 0 without an error is the end. Sockets of the runtime's poller do not block.
func Recv(fd uintptr, p []byte) (int, error) { return retryEINTR(syscall.Read, fd, p) }

// Send writes as much of p, which must not be empty, as the socket takes. It never waits: the error
// is EAGAIN when the socket takes nothing.
func Send(fd uintptr, p []byte) (int, error) { return retryEINTR(syscall.Write, fd, p) }

func retryEINTR(do func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, error) {
	for {
		switch n, err := do(int(fd), p); err {
		case nil:
			return n, nil
		case syscall.EINTR:
		default:
			return 0, err
		}
	}
}
