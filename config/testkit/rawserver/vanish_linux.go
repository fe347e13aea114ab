package rawserver

import (
	"errors"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// DropPackets simulates that the server's host has disappeared for this connection. The kernel
// drops incoming packets before TCP sees them, so nothing is acknowledged and the connection is not
// reset.
func (p *Peer) DropPackets() { DropAll(p.T, p.TCP) }

// DropAll makes the kernel drop all packets for a socket. If the socket is a listener, connection
// attempts then time out, while existing connections continue.
func DropAll(t *testing.T, of syscall.Conn) {
	t.Helper()
	program := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	raw, err := of.SyscallConn()
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) {
			drop := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
			err = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &drop)
		}), err)
	}
	if err != nil {
		t.Error(err)
	}
}

// RestorePackets reverses DropPackets.
func (p *Peer) RestorePackets() {
	if raw, err := p.TCP.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DETACH_FILTER, 0) })
	}
}
