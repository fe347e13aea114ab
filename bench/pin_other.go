//go:build !linux

package bench

import "errors"

var errNoPinning = errors.New("this system has no call for it")

// processors are those that this process may run on; none are known.
func processors() []int { return nil }

// pinThread cannot bind a thread to processors here.
func pinThread([]int) (undo func(), err error) { return func() {}, errNoPinning }

// pinProcess cannot bind this process to processors here.
func pinProcess([]int) (undo func(), err error) { return func() {}, errNoPinning }
