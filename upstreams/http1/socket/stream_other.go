//go:build !unix

package socket

import "net"

// Stream is the reading and writing of a TCP connection: here its own.
type Stream struct{ *net.TCPConn }

// Open prepares s for c.
func (s *Stream) Open(c *net.TCPConn) error {
	s.TCPConn = c
	return nil
}
