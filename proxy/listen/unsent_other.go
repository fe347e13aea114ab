//go:build !linux

package listen

import (
	"net"
	"time"
)

// boundUnsent does nothing here: the bound is Linux's TCP_NOTSENT_LOWAT.
func boundUnsent(*net.TCPConn) {}

// boundUnacknowledged does nothing here: the bound is Linux's TCP_USER_TIMEOUT.
func boundUnacknowledged(*net.TCPConn, time.Duration) {}
