//go:build !linux

package listen

import "net"

// The functions below replace functions that exist only on Linux.

// dropSYN does nothing, because these systems have no such filter.
func dropSYN(uintptr) {}

// acceptQueue returns 0, because the queue's length is unknown.
func acceptQueue(uintptr) int { return 0 }

// limitSendBuffer does nothing, because these systems have no TCP_NOTSENT_LOWAT.
func limitSendBuffer(*net.TCPConn) {}
