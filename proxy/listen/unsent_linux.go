package listen

import (
	"net"

	"golang.org/x/sys/unix"
)

// unsent is how many bytes may wait in a socket beyond what the client's window takes. Without a bound the kernel lets a
// buffer grow to some megabytes and wakes a blocked writer only when a third of it is free again: a client that reads
// slowly but steadily then looks like one that has stopped, and is cut by the write deadline.
const unsent = 128 << 10

// boundUnsent sets the bound for c, and not once for the listener: that of a service manager may be a multipath one, which
// hands nothing down. Failing costs only the bound.
func boundUnsent(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsent)
	})
}
