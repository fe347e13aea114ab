package socket

import (
	"net"
	"syscall"
)

// Conn is a connection with a descriptor: TCP, or a Unix socket.
type Conn interface {
	net.Conn
	syscall.Conn
}
