//go:build !unix

package listen

import (
	"errors"
	"io"
	"net"
)

// These replace what only Unix systems have.

// disconnectWatch does nothing, because sockets cannot be peeked at here. Only a write notices that
// a client has left.
type disconnectWatch struct{}

func newDisconnectWatch(*Listener) (*disconnectWatch, error) { return &disconnectWatch{}, nil }

func (*disconnectWatch) add(*Conn) error { return nil }

func (*disconnectWatch) remove(*Conn) {}

func (*disconnectWatch) close() error { return nil }

// hasUnread is always false: sockets cannot be peeked at here.
func hasUnread(*net.TCPConn) bool { return false }

// readAvailable never has bytes.
func readAvailable(*net.TCPConn, []byte) (int, error) { return 0, io.EOF }

// descriptors returns 0: there is no limit.
func descriptors() int { return 0 }

// setReusePort fails, because there is no such option here.
func setReusePort(uintptr) error { return errors.New("ports cannot be shared on this system") }
