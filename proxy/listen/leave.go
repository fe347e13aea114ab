package listen

import (
	"errors"
	"net"
	"os"
	"time"
)

const (
	// handshakeTime is how long a listener that refuses new connections waits for the last handshakes to end.
	handshakeTime = 50 * time.Millisecond
	// backlogTime bounds the wait for the accept queue to empty, which it does unless the process cannot keep up.
	backlogTime = 2 * time.Second
	// leaveAfter is how long a connection may stay without a request before Leave ends it: long enough for a client that
	// sends its next request when the answer has come, short enough not to be waited for.
	leaveAfter = time.Second
)

// Leave ends accepting without cutting anybody off, and returns when the listener is closed. Connections whose handshake
// has begun are accepted still; later ones are refused (or taken by whoever shares the port). Then every connection that
// waits for a next request is closed once it has waited for leaveAfter, with a last look at its socket: a request that has
// come is served.
func (l *Listener) Leave() {
	if l.keepSocket {
		_ = l.Listener.Close() // the queue is the next process's
	} else {
		_ = CloseGently(l.Listener)
	}
	l.leaving.Store(true)
	for _, c := range l.snapshot() {
		if c.idleSince.Load() != 0 {
			c.woken.Store(true)
			_ = c.TCPConn.SetReadDeadline(time.Now())
		}
	}
}

// CloseGently closes a listener when everybody whose handshake had begun has been accepted; somebody must go on accepting
// meanwhile. The kernel ignores newcomers from the start, where it can be told to; elsewhere closing resets those that came
// in after the last look.
func CloseGently(ln net.Listener) error {
	control(ln, dropSYN)
	time.Sleep(handshakeTime)
	for end := time.Now().Add(backlogTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting := 0
		control(ln, func(fd uintptr) { waiting = acceptQueue(fd) })
		if waiting == 0 {
			break
		}
	}
	return ln.Close()
}

// control calls f with the descriptor of a TCP listener that is open.
func control(ln net.Listener, f func(fd uintptr)) {
	if tcp, ok := ln.(*net.TCPListener); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = raw.Control(f) // fails on a closed listener only
		}
	}
}

// setIdle notes whether the connection waits for its next request.
func (c *Conn) setIdle(idle bool) {
	since := int64(0)
	if idle {
		since = max(1, int64(time.Since(epoch)))
	}
	c.idleSince.Store(since)
}

// read reads what the client sends, until readBy. After Leave it ends connections that have nothing to do.
func (c *Conn) read(p []byte) (int, error) {
	for {
		if c.ln.leaving.Load() {
			if since := c.idleSince.Load(); since != 0 {
				return c.lastRead(p, since+int64(leaveAfter))
			}
		}
		n, err := c.stream.Read(p)
		if n > 0 || err == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if !c.woken.CompareAndSwap(true, false) && c.overdue() {
			return n, err
		}
		// Leave has disturbed the read, or a deadline of earlier has fired. Should Leave come right now, what follows undoes its
		// doing, but the next look at leaving sees it.
		c.holdRead(c.readBy.Load())
	}
}

// lastRead waits until a time since epoch, then takes what has come nevertheless, and reports the end of the connection when that is
// nothing.
func (c *Conn) lastRead(p []byte, until int64) (int, error) {
	c.holdRead(until)
	n, err := c.stream.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n, err = c.take(p)
	}
	c.holdRead(c.readBy.Load())
	return n, err
}
