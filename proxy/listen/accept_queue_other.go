//go:build !linux

package listen

// dropSYN does nothing here: the filter is Linux's.
func dropSYN(uintptr) {}

// acceptQueue is always 0 here: the length is not known.
func acceptQueue(uintptr) int { return 0 }
