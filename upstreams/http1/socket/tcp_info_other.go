//go:build !linux

package socket

// UnackedMillis returns 0 on this system. Connections to a silent host are closed only by the
// kernel's timeouts.
func UnackedMillis(uintptr) (milliseconds int, waiting bool) { return 0, false }

// UnackedBytes returns 0, because only Linux reports the count.
func UnackedBytes(uintptr) int { return 0 }

// ProbeEverySecond does nothing on this system, because SilentMillis could not detect a missing
// answer.
func ProbeEverySecond(uintptr) error { return nil }

// SilentMillis returns 0 on this system.
func SilentMillis(uintptr) (milliseconds int, owed bool) { return 0, false }
