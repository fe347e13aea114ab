//go:build !linux

package rawload

import (
	"context"
	"errors"
)

// Loop exists only on Linux.
type Loop struct{}

// Start returns an error.
func Start() (*Loop, error) { return nil, errors.ErrUnsupported }

// Address returns "".
func (*Loop) Address() string { return "" }

// Run returns an error.
func (*Loop) Run(context.Context, *Load) (*Result, error) { return nil, errors.ErrUnsupported }

// Close does nothing.
func (*Loop) Close() {}
