//go:build !linux

package socket

// UnackedFor is always 0 here: only the system's own timeouts end connections to a silent host.
func UnackedFor(uintptr) (milliseconds int, waiting bool) { return 0, false }

// UnackedBytes is always 0 here: the count is Linux's.
func UnackedBytes(uintptr) int { return 0 }

// ProbeEverySecond does nothing here, because SilentFor could not see that no answer comes.
func ProbeEverySecond(uintptr) error { return nil }

// SilentFor is always 0 here, like UnackedFor.
func SilentFor(uintptr) (milliseconds int, owed bool) { return 0, false }
