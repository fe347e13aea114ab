//go:build !linux

package listen

import "net"

// The functions below replace the Linux implementations.

// dropSYN does nothing, because these systems do not have this filter.
func dropSYN(uintptr) {}

// acceptQueueLen returns 0, because the length of the queue is unknown on these systems.
func acceptQueueLen(uintptr) int { return 0 }

// limitSendBuffer does nothing, because these systems do not have TCP_NOTSENT_LOWAT.
func limitSendBuffer(*net.TCPConn) {}
