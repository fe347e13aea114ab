package listen

import (
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
	"time"

	"penstock/config/unixsocket"
)

// PortOptions configure how a port is opened.
type PortOptions struct {
	// Tries is how many consecutive ports Listen tries, in case the first ports are taken. 0 and 1
	// mean the given port only.
	Tries int
	// ReusePort lets another process listen on the same port at the same time (SO_REUSEPORT), if
	// that process sets the option as well. The kernel distributes new connections between them. A
	// Unix socket is taken over instead: only this process gets new connections.
	ReusePort bool
}

// Listen opens a plain TCP listener on addr (host:port), or a listener at a Unix socket
// (unix:PATH). For TCP it turns off Multipath TCP, which is Go's default. Multipath TCP sockets
// accept no filter (see Listener.CloseGracefully), and their connections do not inherit options.
func Listen(addr string, how PortOptions) (net.Listener, error) {
	if unixsocket.Is(addr) {
		return listenUnix(addr, how.ReusePort)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	// The probes detect within a minute that the host of a waiting client has vanished. A few lost
	// probes do not matter.
	config.KeepAliveConfig = net.KeepAliveConfig{
		Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second,
		Count: 9,
	}
	if how.ReusePort {
		config.Control = reusePortControl
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

// reusePortControl sets SO_REUSEPORT before the bind.
func reusePortControl(_, _ string, raw syscall.RawConn) error {
	var set error
	if err := raw.Control(func(fd uintptr) { set = setReusePort(fd) }); err != nil {
		return err
	}
	return set
}
