package process

import (
	"os/exec"
	"syscall"
)

// bindChild makes the child end when this process ends, even if this process is killed by SIGKILL
// (prctl PR_SET_PDEATHSIG). It also puts the child into a separate process group, so that Ctrl-C
// does not reach the child. Otherwise, engines could end before the report is written, and the
// report would show dead engines.
func bindChild(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
