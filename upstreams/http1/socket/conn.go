package socket

import (
	"net"
	"syscall"
)

// Conn is a TCP or Unix connection with a descriptor.
type Conn interface {
	net.Conn
	syscall.Conn
}
