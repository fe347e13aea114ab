//go:build !linux

package socket

import (
	"errors"
	"syscall"
)

// HangUps is not supported on this system.
type HangUps struct{}

// HangUp is never watched on this system.
type HangUp struct{}

// Watched returns false.
func (*HangUp) Watched() bool { return false }

// Add returns an error.
func (*HangUps) Add(*HangUp, syscall.RawConn, func(run func()), func()) error {
	return errors.ErrUnsupported
}

// Remove does nothing.
func (*HangUps) Remove(*HangUp) {}
