//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package upstreams

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// canPeek says that peek sees what has come without taking it.
const canPeek = true

// stalePatience is for TLS only, where a peek has found the socket empty already: a deadline that has passed makes the
// read look into the TLS buffers and no further.
const stalePatience = -time.Second

// peek looks at what the socket has received, without waiting and without taking anything.
func (c *conn) peek() peeked {
	if err := c.raw.Control(c.probe); err != nil {
		c.lastErr = err
		return peekedBroken
	}
	return c.probed
}

func (c *conn) look(fd uintptr) {
	for {
		n, err := peekByte(fd, &c.one)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			c.probed = peekedQuiet
		case err != nil:
			c.probed, c.lastErr = peekedBroken, err
		case n == 0:
			c.probed = peekedEOF
		default:
			c.probed = peekedData
		}
		return
	}
}
