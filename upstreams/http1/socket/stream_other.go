//go:build !unix

package socket

import (
	"net"
	"os"
)

// Stream reads and writes a connection with the connection's own methods.
type Stream struct{ net.Conn }

// Attach initialises s for c.
func (s *Stream) Attach(c Conn) error {
	s.Conn = c
	return nil
}

// TryWrite writes nothing.
func (s *Stream) TryWrite([]byte) int { return 0 }

// TryRead reads nothing.
func (s *Stream) TryRead([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
