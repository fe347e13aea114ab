//go:build unix

package listen

import (
	"errors"
	"io"
	"syscall"

	"penstock/upstreams/http1/socket"
)

// waits reports whether a call waits with the client.
func (c *Conn) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.waiter != nil
}

// hungUp peeks without taking anything out of the socket. A FIN behind data that has not been read stays unseen.
func (c *Conn) hungUp() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	_ = raw.Control(func(fd uintptr) { // fails on a connection that we have closed only
		var b [1]byte
		n, err := socket.Peek(fd, b[:])
		switch {
		case err == nil:
			gone = n == 0
		case !errors.Is(err, syscall.EAGAIN):
			gone = true // reset, timed out, unreachable
		}
	})
	return gone
}

// take reads what is there without waiting; io.EOF when that is nothing.
func (c *Conn) take(p []byte) (int, error) {
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
