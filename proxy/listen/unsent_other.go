//go:build !linux

package listen

import "net"

// boundUnsent does nothing here: the bound is Linux's TCP_NOTSENT_LOWAT.
func boundUnsent(*net.TCPConn) {}
