//go:build !linux

package process

import "errors"

var errNoPinning = errors.New("this system does not support it")

// Processors returns nothing: the processors of this process are not known.
func Processors() []int { return nil }

// pinThread cannot bind a thread to processors here.
func pinThread([]int) (undo func(), err error) { return func() {}, errNoPinning }

// PinProcess fails: this system cannot bind a process to processors.
func PinProcess([]int) (undo func(), err error) { return func() {}, errNoPinning }
