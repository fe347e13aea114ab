package listen

import (
	"errors"
	"net"
	"strconv"
	"syscall"
)

// Listen opens a TCP listener on addr (host:port).
func Listen(addr string) (net.Listener, error) { return net.Listen("tcp", addr) }

// ListenNext opens a TCP listener on addr or, while the port is taken, on one of the next ports, tries in all.
func ListenNext(addr string, tries int) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		return nil, err
	}
	for i := range tries {
		ln, err := Listen(net.JoinHostPort(host, strconv.Itoa(n+i)))
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || i == tries-1 {
			return ln, err
		}
	}
	return nil, syscall.EADDRINUSE
}
