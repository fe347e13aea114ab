//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// bindChild puts the child into a process group of its own, so that Ctrl-C reaches us alone. These
// systems have no means to end it when we are killed by KILL.
func bindChild(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
