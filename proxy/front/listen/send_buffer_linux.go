package listen

import (
	"net"

	"golang.org/x/sys/unix"
)

// maxUnsent is how many bytes may wait in a socket beyond the client's window. Without this limit
// the kernel lets the send buffer grow to some megabytes, and wakes a blocked writer only when a
// third of the buffer is free again. A client that reads slowly but steadily would then miss the
// write deadline, as if it had stopped reading.
const maxUnsent = 128 << 10

// limitSendBuffer sets the limit on c rather than once on the listener. The listener of a service
// manager may use Multipath TCP, whose connections inherit no options. If the call fails, the
// connection works without the limit.
func limitSendBuffer(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent)
	})
}
