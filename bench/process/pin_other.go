//go:build !linux

package process

import "errors"

var errNoPinning = errors.New("this system does not support it")

// AllowedCPUs returns nil, because the CPUs are unknown on this system.
func AllowedCPUs() []int { return nil }

// pinThread is not supported on this system.
func pinThread([]int) (undo func(), err error) { return func() {}, errNoPinning }

// PinProcess is not supported on this system.
func PinProcess([]int) (undo func(), err error) { return func() {}, errNoPinning }
