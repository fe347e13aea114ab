//go:build unix

package listen

import (
	"errors"
	"io"
	"syscall"

	"penstock/upstreams/http1/socket"
)

// hungUp reports whether the client has closed its side, or the connection has failed. It reads
// nothing from the socket, and does not see a FIN behind unread data.
func hungUp(c sock) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) { // Control fails only on a closed connection
		var b [1]byte
		n, err := socket.Peek(fd, b[:])
		switch {
		case err == nil:
			gone = n == 0
		case !errors.Is(err, syscall.EAGAIN):
			gone = true // the connection was reset, has timed out, or is unreachable
		}
	})
	return gone
}

// hasUnread reports whether the socket holds unread bytes.
func hasUnread(c sock) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { // Control fails only on a closed connection
		var b [1]byte
		n, _ = socket.Peek(fd, b[:])
	})
	return n > 0
}

// readAvailable reads without waiting. It returns io.EOF if nothing has been received.
func readAvailable(c sock, p []byte) (int, error) {
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
