package process

import (
	"os/exec"
	"syscall"
)

// bindChild makes the child end when we end, even by SIGKILL (prctl PR_SET_PDEATHSIG). It puts the
// child into its own process group, so that Ctrl-C reaches only us. Otherwise engines could end
// first, and a report would show dead engines.
func bindChild(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
