//go:build unix

package listen

import (
	"errors"
	"io"
	"syscall"

	"penstock/upstreams/http1/socket"
)

// isHungUp reports whether the client has closed its side or the connection has failed. It does not
// consume any bytes, and cannot detect a FIN behind unread bytes.
func isHungUp(c rawConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) { // Control fails only if the connection is closed
		var b [1]byte
		n, err := socket.Peek(fd, b[:])
		switch {
		case err == nil:
			gone = n == 0
		case !errors.Is(err, syscall.EAGAIN):
			gone = true // the connection was reset or timed out, or its host is unreachable
		}
	})
	return gone
}

func hasUnread(c rawConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { // Control fails only if the connection is closed
		var b [1]byte
		n, _ = socket.Peek(fd, b[:])
	})
	return n > 0
}

// readAvailable reads without blocking. It returns io.EOF if no byte is available.
func readAvailable(c rawConn, p []byte) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var read error
	err = raw.Control(func(fd uintptr) { n, read = socket.Recv(fd, p) })
	if err != nil || read != nil || n <= 0 {
		return 0, io.EOF
	}
	return n, nil
}
