//go:build !linux

package socket

// UnackedFor returns 0 on this system. Only the kernel's timeouts close connections to a silent
// host.
func UnackedFor(uintptr) (milliseconds int, waiting bool) { return 0, false }

// UnackedBytes returns 0, because only Linux reports the count.
func UnackedBytes(uintptr) int { return 0 }

// ProbeEverySecond does nothing on this system, because SilentFor could not detect a missing
// answer.
func ProbeEverySecond(uintptr) error { return nil }

// SilentFor returns 0 on this system.
func SilentFor(uintptr) (milliseconds int, owed bool) { return 0, false }
