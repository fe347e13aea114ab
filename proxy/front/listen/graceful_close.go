package listen

import (
	"net"
	"syscall"
	"time"
)

const (
	// tcpHandshakeWait is how long a graceful close waits for pending TCP handshakes to complete.
	tcpHandshakeWait = 50 * time.Millisecond
	// acceptQueueDrainWait is how long a graceful close waits for the accept queue to become empty.
	// Only an overloaded process reaches this limit.
	acceptQueueDrainWait = 2 * time.Second
	// shutdownIdleGrace is how long a connection may be idle before CloseGracefully closes it.
	// Clients that send their next request right after a response need less time.
	shutdownIdleGrace = time.Second
	// firstRequestGrace replaces shutdownIdleGrace for a connection that has not had a request yet.
	// Its client does not know about the shutdown, and a busy client may take a second between
	// connecting and sending.
	firstRequestGrace = 3 * time.Second
)

// CloseGracefully stops accepting connections without losing any connection. It returns when the
// listener is closed. It still accepts connections whose handshake has already started. Later
// connections are refused or reach another process on the same port. It closes idle connections
// after shutdownIdleGrace or firstRequestGrace, unless the last read returns bytes of a request.
// Parked connections have been idle for longer and are closed immediately.
func (l *Listener) CloseGracefully() {
	if l.keepSocket {
		_ = l.Listener.Close() // the next process accepts the connections in the queue
	} else {
		_ = CloseAfterBacklog(l.Listener)
	}
	l.isClosing.Store(true)
	for _, c := range l.copyConns() {
		switch {
		case c.unpark():
			c.closeUnlessReadable()
		case c.idle.idleSince.Load() != 0:
			c.interruptRead()
		}
	}
}

// CloseAfterBacklog closes a listener once all connections whose handshake has started have been
// accepted. Another goroutine must accept these connections. Until the listener is closed, the
// Linux kernel ignores new connections. On other systems, closing the listener resets connections
// that arrived after the last check. A Unix socket is first removed from the file system.
func CloseAfterBacklog(ln net.Listener) error {
	waits := func(fd uintptr) bool { return acceptQueueLen(fd) > 0 }
	if local, ok := ln.(*unixListener); ok {
		local.removeFile()
		waits = hasPendingConn
	} else {
		controlSocket(ln, dropSYN)
	}
	time.Sleep(tcpHandshakeWait)
	for end := time.Now().Add(acceptQueueDrainWait); time.Now().Before(end); time.Sleep(time.Millisecond) {
		waiting := false
		controlSocket(ln, func(fd uintptr) { waiting = waits(fd) })
		if !waiting {
			break
		}
	}
	return ln.Close()
}

func controlSocket(ln net.Listener, f func(fd uintptr)) {
	if described, ok := ln.(syscall.Conn); ok {
		if raw, err := described.SyscallConn(); err == nil {
			_ = raw.Control(f) // Control fails only if the listener is closed
		}
	}
}
