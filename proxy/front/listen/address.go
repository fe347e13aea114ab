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

// PortOptions configure how Listen opens a port.
type PortOptions struct {
	// Tries is the number of consecutive ports that Listen tries until one is free. If Tries is 0
	// or 1, Listen tries only the given port.
	Tries int
	// ReusePort allows another process with the same option to listen on the port (SO_REUSEPORT).
	// The kernel distributes new connections between the processes. A Unix socket is not shared:
	// this process takes over the path and gets all new connections.
	ReusePort bool
}

// Listen opens a TCP listener on addr (host:port) or a listener on a Unix socket (unix:PATH). It
// disables Multipath TCP, which Go enables by default. Multipath TCP sockets do not accept filters
// (see Listener.CloseGracefully), and their connections do not inherit options.
func Listen(addr string, how PortOptions) (net.Listener, error) {
	if unixsocket.IsAddress(addr) {
		return listenUnix(addr, how.ReusePort)
	}
	var config net.ListenConfig
	config.SetMultipathTCP(false)
	// The keep-alive probes detect within a minute that the host of a waiting client has vanished.
	// They tolerate the loss of a few packets.
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

func reusePortControl(_, _ string, raw syscall.RawConn) error {
	var set error
	if err := raw.Control(func(fd uintptr) { set = setReusePort(fd) }); err != nil {
		return err
	}
	return set
}
