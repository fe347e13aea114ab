package listen

import (
	"net"
	"syscall"
	"time"
)

const (
	// handshakeWait is how long a listener that refuses new connections waits for pending
	// handshakes.
	handshakeWait = 50 * time.Millisecond
	// backlogWait is how long a close waits for an empty accept queue. Only an overloaded process
	// reaches this limit.
	backlogWait = 2 * time.Second
	// idleGrace is how long a connection may be idle before CloseGracefully ends it. A client that
	// sends its next request right after an answer needs less time, and a shutdown can wait this
	// long.
	idleGrace = time.Second
	// firstGrace is idleGrace for a connection that has not sent a request yet. Its client has seen
	// no sign of the shutdown, and a busy client may take a second from connecting to sending.
	firstGrace = 3 * time.Second
)

// CloseGracefully stops accepting without losing a connection, and returns once the listener is
// closed. It still accepts connections whose handshake has started. Later connections are refused,
// or go to another process on the same port. An idle connection is closed after idleGrace or
// firstGrace. If a last read finds a request, the request is served.
func (l *Listener) CloseGracefully() {
	if l.keepSocket {
		_ = l.Listener.Close() // the next process accepts the queue
	} else {
		_ = CloseAfterBacklog(l.Listener)
	}
	l.closing.Store(true)
	for _, c := range l.snapshot() {
		if c.idle.since.Load() != 0 {
			c.idle.interrupted.Store(true)
			_ = c.sock.SetReadDeadline(time.Now())
		}
	}
}

// CloseAfterBacklog closes a listener once all connections whose handshake had started are
// accepted. Another goroutine must keep accepting meanwhile. On Linux the kernel ignores new
// connections from the start. On other systems the close resets connections that are opened after
// the last check. A Unix socket is first removed from the file system.
func CloseAfterBacklog(ln net.Listener) error {
	waits := func(fd uintptr) bool { return acceptQueue(fd) > 0 }
	if local, ok := ln.(*unixListener); ok {
		local.removeFile()
		waits = acceptable
	} else {
		control(ln, dropSYN)
	}
	time.Sleep(handshakeWait)
	for end := time.Now().Add(backlogWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting := false
		control(ln, func(fd uintptr) { waiting = waits(fd) })
		if !waiting {
			break
		}
	}
	return ln.Close()
}

// control calls f with the descriptor of an open listener.
func control(ln net.Listener, f func(fd uintptr)) {
	if described, ok := ln.(syscall.Conn); ok {
		if raw, err := described.SyscallConn(); err == nil {
			_ = raw.Control(f) // Control fails only on a closed listener
		}
	}
}
