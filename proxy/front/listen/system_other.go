//go:build !unix

package listen

import (
	"errors"
	"io"
	"io/fs"
)

// The functions below replace the Unix implementations.

// disconnectWatch does nothing, because these systems cannot peek at a socket. The edge detects a
// disconnected client only when a write fails.
type disconnectWatch struct{}

type hangUpHandle struct{}

func newDisconnectWatch(*Listener) (*disconnectWatch, error) { return &disconnectWatch{}, nil }

func (*disconnectWatch) add(*Conn) error { return nil }

func (*disconnectWatch) remove(*Conn) {}

func (*disconnectWatch) awaitBytes(*Conn) bool { return false }

func (*disconnectWatch) stopAwaiting(*Conn) bool { return false }

func (*disconnectWatch) close() error { return nil }

// hasUnread returns false, because these systems cannot peek at a socket.
func hasUnread(rawConn) bool { return false }

func readAvailable(rawConn, []byte) (int, error) { return 0, io.EOF }

// descriptorLimit returns 0, because these systems do not limit descriptors.
func descriptorLimit() int { return 0 }

// setReusePort fails, because these systems do not have SO_REUSEPORT.
func setReusePort(uintptr) error { return errors.New("ports cannot be shared on this system") }

// limitSocketPermissions does nothing, because sockets have no mode on these systems.
func limitSocketPermissions(uintptr, fs.FileMode) {}

func lockSocketFolder(string) (unlock func()) { return func() {} }

func hasPendingConn(uintptr) bool { return false }
