package top

import (
	"os"

	"golang.org/x/sys/windows"
)

// watchSize never signals a change. Each frame reads the size, and a frame is drawn every second.
func watchSize() (resized <-chan struct{}, stop func()) { return nil, func() {} }

// prepareOutput makes the console interpret escape sequences.
func prepareOutput(out *os.File) (restore func()) {
	var mode uint32
	if !withDescriptor(out, func(fd int) bool { return windows.GetConsoleMode(windows.Handle(fd), &mode) == nil }) {
		return func() {}
	}
	set := func(mode uint32) {
		withDescriptor(out, func(fd int) bool { return windows.SetConsoleMode(windows.Handle(fd), mode) == nil })
	}
	set(mode | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING)
	return func() { set(mode) }
}
