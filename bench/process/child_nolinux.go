//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// bindChild puts the child into a separate process group, so that Ctrl-C does not reach it. This
// system cannot end the child if this process is killed by SIGKILL.
func bindChild(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
