//go:build unix && !linux

package documents

import "syscall"

// ownNetwork leaves a child in the machine's network, because this system cannot create another
// network.
func ownNetwork() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func raiseLoopback() error { return nil }
