//go:build !unix

package socket

import (
	"net"
	"os"
)

// Stream reads and writes a connection with the connection's own methods.
type Stream struct{ net.Conn }

// Open initialises s for c.
func (s *Stream) Open(c Conn) error {
	s.Conn = c
	return nil
}

// WriteNow writes nothing.
func (s *Stream) WriteNow([]byte) int { return 0 }

// ReadNow never has bytes.
func (s *Stream) ReadNow([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }
