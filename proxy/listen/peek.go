//go:build unix

package listen

import "golang.org/x/sys/unix"

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
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			gone = n == 0
		case unix.EAGAIN, unix.EINTR:
		default:
			gone = true // reset, timed out, unreachable
		}
	})
	return gone
}
