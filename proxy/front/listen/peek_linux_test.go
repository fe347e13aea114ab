package listen

import "golang.org/x/sys/unix"

func peeked(c *Conn, in []byte) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	_ = raw.Control(func(fd uintptr) { n, _, _ = unix.Recvfrom(int(fd), in, unix.MSG_PEEK|unix.MSG_DONTWAIT) })
	return n > 0
}
