package listen

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsentBytes is how many unsent bytes a socket may buffer. Without this limit, the send buffer
// would grow to a few megabytes. The kernel would then wake a blocked writer only when a third of
// the buffer is free. A client that reads slowly but steadily would then exceed the write timeout,
// like a client that has stopped reading.
const maxUnsentBytes = 128 << 10

// limitSendBuffer sets maxUnsentBytes on a connection. It is not set on the listener, because a service
// manager's listener may use Multipath TCP, whose connections do not inherit options. It ignores
// errors.
func limitSendBuffer(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsentBytes)
	})
}
