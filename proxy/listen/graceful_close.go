package listen

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// handshakeWait is how long a listener that refuses new connections waits for the last
	// handshakes.
	handshakeWait = 50 * time.Millisecond
	// backlogWait bounds the wait for an empty accept queue. Only an overloaded process reaches it.
	backlogWait = 2 * time.Second
	// idleGrace is how long a connection may be idle before CloseGracefully ends it. A client that
	// sends its next request right after an answer needs less, and a shutdown can wait that long.
	idleGrace = time.Second
)

// CloseGracefully stops accepting without a lost connection, and returns when the listener is
// closed. Connections whose handshake has begun are still accepted. Later ones are refused, or go
// to another process on the same port. Each idle connection is closed once it has waited for
// idleGrace. A last read finds a request that has come by then, and that request is served.
func (l *Listener) CloseGracefully() {
	if l.keepSocket {
		_ = l.Listener.Close() // the next process accepts the queue
	} else {
		_ = CloseAfterBacklog(l.Listener)
	}
	l.closing.Store(true)
	for _, c := range l.snapshot() {
		if c.idleSince.Load() != 0 {
			c.readInterrupted.Store(true)
			_ = c.TCPConn.SetReadDeadline(time.Now())
		}
	}
}

// CloseAfterBacklog closes a listener once all connections whose handshake had begun have been
// accepted. Another goroutine must go on accepting meanwhile. On Linux the kernel ignores new
// connections from the start. Elsewhere closing resets those that came after the last check.
func CloseAfterBacklog(ln net.Listener) error {
	control(ln, dropSYN)
	time.Sleep(handshakeWait)
	for end := time.Now().Add(backlogWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting := 0
		control(ln, func(fd uintptr) { waiting = acceptQueue(fd) })
		if waiting == 0 {
			break
		}
	}
	return ln.Close()
}

// control calls f with the descriptor of an open TCP listener.
func control(ln net.Listener, f func(fd uintptr)) {
	if tcp, ok := ln.(*net.TCPListener); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = raw.Control(f) // fails only on a closed listener
		}
	}
}

// setIdle records whether the connection waits for its next request.
func (c *Conn) setIdle(idle bool) {
	since := int64(0)
	if idle {
		since = max(1, int64(time.Since(epoch)))
	}
	c.idleSince.Store(since)
}

// read reads what the client sends, until readDeadline. After CloseGracefully it ends idle
// connections.
func (c *Conn) read(p []byte) (int, error) {
	for {
		if c.ln.closing.Load() {
			if since := c.idleSince.Load(); since != 0 {
				return c.finalRead(p, since+int64(idleGrace))
			}
		}
		n, err := c.stream.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !c.readInterrupted.CompareAndSwap(true, false) && c.readOverdue() {
			return n, err
		}
		// CloseGracefully has interrupted the read, or an earlier deadline has fired. If
		// CloseGracefully runs now, this resets its deadline; the loop then sees closing.
		c.applyReadDeadline(c.readDeadline.Load())
	}
}

// finalRead reads until a time since epoch, then takes bytes that have come nevertheless. Without
// any it returns io.EOF.
func (c *Conn) finalRead(p []byte, until int64) (int, error) {
	c.applyReadDeadline(until)
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = c.readAvailable(p)
	}
	c.applyReadDeadline(c.readDeadline.Load())
	return n, err
}
