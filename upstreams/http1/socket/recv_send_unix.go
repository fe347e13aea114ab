//go:build unix && (!linux || race)

package socket

import "syscall"

// Recv reads into p, which must not be empty. It never waits, and returns EAGAIN if nothing has
// arrived. At the end of the stream, it returns 0 without an error. It does not block, because
// sockets in the runtime's poller are non-blocking.
func Recv(fd uintptr, p []byte) (int, error) { return retryEINTR(syscall.Read, fd, p) }

// Send writes as much of p as the socket accepts. p must not be empty. It never waits, and returns
// EAGAIN if the socket accepts nothing.
func Send(fd uintptr, p []byte) (int, error) { return retryEINTR(syscall.Write, fd, p) }

// SendPieces is like Send for more than one piece. No piece may be empty. On this system, one call
// sends at most the first sendLimit bytes of the first piece.
func SendPieces(fd uintptr, pieces [][]byte) (int, error) {
	return Send(fd, pieces[0][:min(len(pieces[0]), sendLimit)])
}

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
