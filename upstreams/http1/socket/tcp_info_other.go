//go:build !linux

package socket

// UnackedFor is always 0 here: only the kernel's own timeouts close connections to a silent host.
func UnackedFor(uintptr) (milliseconds int, waiting bool) { return 0, false }

// UnackedBytes is always 0 here, because only Linux reports the count.
func UnackedBytes(uintptr) int { return 0 }

// ProbeEverySecond does nothing here, because SilentFor could not detect a missing answer.
func ProbeEverySecond(uintptr) error { return nil }

// SilentFor is always 0 here, like UnackedFor.
func SilentFor(uintptr) (milliseconds int, owed bool) { return 0, false }
