//go:build !linux

package socket

// Silence sees nothing here: the system's own patience with a silent host counts.
func Silence(uintptr) (milliseconds int, waiting bool) { return 0, false }
