//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

// HangUpWatch is not supported on this system.
type HangUpWatch struct{}

// HangUpHandle is never watched on this system.
type HangUpHandle struct{}

// IsWatched returns false.
func (*HangUpHandle) IsWatched() bool { return false }

// Add returns an error.
func (*HangUpWatch) Add(*HangUpHandle, syscall.RawConn, func(run func()), func()) error {
	return errors.ErrUnsupported
}

// Remove does nothing.
func (*HangUpWatch) Remove(*HangUpHandle) {}
