//go:build !linux

package listen

import "net"

// OtherListeners is always 0: only Linux says which sockets listen on an address.
func OtherListeners(net.Listener) int { return 0 }
