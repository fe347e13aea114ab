//go:build !unix

package listen

import (
	"errors"
	"io"
	"io/fs"
)

// The functions below replace functions that exist only on Unix systems.

// disconnectWatch does nothing, because these systems do not let the edge peek at a socket. The
// edge notices that a client has left only when a write fails.
type disconnectWatch struct{}

func newDisconnectWatch(*Listener) (*disconnectWatch, error) { return &disconnectWatch{}, nil }

func (*disconnectWatch) add(*Conn) error { return nil }

func (*disconnectWatch) remove(*Conn) {}

func (*disconnectWatch) close() error { return nil }

// hasUnread returns false, because these systems do not let the edge peek at a socket.
func hasUnread(sock) bool { return false }

// readAvailable returns no bytes.
func readAvailable(sock, []byte) (int, error) { return 0, io.EOF }

// descriptors returns 0, because these systems have no limit.
func descriptors() int { return 0 }

// setReusePort fails, because the option does not exist on these systems.
func setReusePort(uintptr) error { return errors.New("ports cannot be shared on this system") }

// limitMode does nothing, because sockets have no mode on these systems.
func limitMode(uintptr, fs.FileMode) {}

// lockFolder does nothing.
func lockFolder(string) (unlock func()) { return func() {} }

// acceptable returns false.
func acceptable(uintptr) bool { return false }
