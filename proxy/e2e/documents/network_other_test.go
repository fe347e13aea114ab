//go:build !linux

package documents

import "syscall"

// ownNetwork leaves a child in the network of the machine: others cannot be made here.
func ownNetwork() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func raiseLoopback() error { return nil }
