//go:build !linux

package listen

// dropSYN does nothing here: the filter is Linux's.
func dropSYN(uintptr) {}

// acceptQueue cannot be told here.
func acceptQueue(uintptr) int { return 0 }
