//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// bindChild puts the child into its own process group, so that Ctrl-C reaches only us. These
// systems cannot end the child if we are killed by SIGKILL.
func bindChild(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
