//go:build !linux

package listen

import "net"

// These replace what only Linux has.

// dropSYN does nothing without the filter.
func dropSYN(uintptr) {}

// acceptQueue is always 0: the length is not known.
func acceptQueue(uintptr) int { return 0 }

// limitSendBuffer does nothing without TCP_NOTSENT_LOWAT.
func limitSendBuffer(*net.TCPConn) {}
