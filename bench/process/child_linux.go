package process

import (
	"os/exec"
	"syscall"
)

// bindChild makes the child end when we do, even by KILL (prctl PR_SET_PDEATHSIG), and puts it into
// a process group of its own, so that Ctrl-C reaches us alone and the report is not one of engines
// that died first.
func bindChild(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
