//go:build unix

package http1

import (
	"errors"
	"io"
	"syscall"
	"time"

	"penstock/upstreams/http1/socket"
)

// canPeek says that peek sees what has come without taking it.
const canPeek = true

// stalePatience is for TLS only, where a peek has found the socket empty already: a deadline that
// has passed makes the read look into the TLS buffers and no further.
const stalePatience = -time.Second

// bind prepares c for peek and fetch.
func (c *conn) bind() { c.probe, c.grab = c.look, c.tryFetch }

// peek looks at what the socket has received, without waiting and without taking anything.
func (c *conn) peek() peeked {
	if err := c.raw.Control(c.probe); err != nil {
		c.lastErr = err
		return peekedBroken
	}
	return c.probed
}

func (c *conn) look(fd uintptr) {
	n, err := socket.Peek(fd, c.one[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		c.probed = peekedQuiet
	case err != nil:
		c.probed, c.lastErr = peekedBroken, err
	case n == 0:
		c.probed = peekedEOF
	default:
		c.probed = peekedData
	}
}

// sendUnsent writes c.unsent and reports whether there is nothing left to do but to wait for the
// reply.
func (c *conn) sendUnsent(fd uintptr) bool {
	c.look(fd)
	c.count, c.lastErr = 0, errUnsent
	if c.probed != peekedQuiet {
		return false
	}
	if c.left, _ = socket.Send(fd, c.unsent.b); c.left < len(c.unsent.b) {
		return false // the next write returns the error
	}
	size := len(c.unsent.b)
	c.unsent.release()
	c.unsent = nil
	if c.look(fd); c.probed == peekedData && socket.UnackedBytes(fd) >= size {
		c.lastErr = errLeftover
		return false
	}
	return true
}

// leftover reports whether bytes are there although the engine's host has acknowledged nothing of
// the request that was begun with size bytes: they cannot be the answer to it. See errLeftover.
func (c *conn) leftover(size int) (yes bool) {
	if c.peek() != peekedData {
		return false
	}
	_ = c.raw.Control(func(fd uintptr) { yes = socket.UnackedBytes(fd) >= size }) // fails on a closed socket only
	return yes
}

// tryFetch reads what has come and reports whether that was anything: bytes, the end or an error.
// The buffer is of the size that one event fits in, and it goes back if there is nothing.
func (c *conn) tryFetch(fd uintptr) bool {
	if c.unsent != nil {
		return !c.sendUnsent(fd)
	}
	b := readBuffers.Get().(*[readBuffer]byte)
	n, err := socket.Recv(fd, b[:])
	if n > 0 {
		c.fetched, c.count, c.lastErr = b, n, nil
		return true
	}
	readBuffers.Put(b)
	if errors.Is(err, syscall.EAGAIN) {
		return false
	}
	if err == nil {
		err = io.EOF
	}
	c.fetched, c.count, c.lastErr = nil, 0, err
	return true
}
