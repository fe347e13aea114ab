package process

import (
	"os/exec"
	"syscall"
)

// bindChild makes the child end when we do, even by KILL (prctl PR_SET_PDEATHSIG), and puts it into
// its own process group, so that Ctrl-C reaches only us and a report does not show engines that
// died first.
func bindChild(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
