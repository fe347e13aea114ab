package listen

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"
)

// How says in which way a port is opened.
type How struct {
	// Tries is how many ports in a row are tried while they are taken; 0 and 1: the given one only.
	Tries int
	// Share lets another process listen on the same port at the same time (SO_REUSEPORT), when it asks for that as well. The
	// kernel spreads new connections over them.
	Share bool
}

// Listen opens a TCP listener on addr (host:port). It is plain TCP and not the multipath TCP of Go's default, whose
// sockets take no filter (see Listener.Leave) and do not hand their options down.
func Listen(addr string, how How) (net.Listener, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	// A client whose host has vanished while it waits is noticed within a minute; some lost questions are no reason to think so.
	config.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 9}
	if how.Share {
		config.Control = shareControl
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	for tries := max(1, how.Tries); ; tries-- {
		ln, err := config.Listen(context.Background(), "tcp", net.JoinHostPort(host, port))
		if err == nil || tries == 1 || !errors.Is(err, syscall.EADDRINUSE) {
			return ln, err
		}
		n, err := strconv.Atoi(port)
		if err != nil {
			return nil, err
		}
		port = strconv.Itoa(n + 1)
	}
}

// shareControl sets SO_REUSEPORT before the socket is bound.
func shareControl(_, _ string, raw syscall.RawConn) error {
	var set error
	if err := raw.Control(func(fd uintptr) { set = sharePort(fd) }); err != nil {
		return err
	}
	return set
}
