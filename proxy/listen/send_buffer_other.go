//go:build !linux

package listen

import "net"

// limitSendBuffer does nothing here: TCP_NOTSENT_LOWAT is Linux's.
func limitSendBuffer(*net.TCPConn) {}
