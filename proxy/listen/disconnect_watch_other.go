//go:build !unix

package listen

import "io"

// disconnectWatch does nothing here, because this system cannot peek at sockets. A write notices
// that a client has left.
type disconnectWatch struct{}

func newDisconnectWatch(*Listener) (*disconnectWatch, error) { return &disconnectWatch{}, nil }

func (*disconnectWatch) add(*Conn) error { return nil }

func (*disconnectWatch) remove(*Conn) {}

func (*disconnectWatch) close() error { return nil }

// readAvailable never has bytes here.
func (*Conn) readAvailable([]byte) (int, error) { return 0, io.EOF }
