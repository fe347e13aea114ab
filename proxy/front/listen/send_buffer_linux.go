package listen

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes may wait in a socket beyond the client's window. Without a bound the
// kernel lets the send buffer grow to some megabytes, and wakes a blocked writer only when a third
// of the buffer is free again. A client that reads slowly but steadily then looks as if it had
// stopped reading, and the write deadline cuts it off.
const maxUnsent = 128 << 10

// limitSendBuffer sets the bound on c rather than once on the listener, because a service manager's
// listener may use Multipath TCP, whose connections inherit nothing. If this fails, only the bound
// is missing.
func limitSendBuffer(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}
