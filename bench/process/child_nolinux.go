//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// bindChild puts the child into a separate process group, so that Ctrl-C does not reach the child.
// If SIGKILL ends this process, the child continues to run on this system.
func bindChild(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
