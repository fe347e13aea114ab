//go:build unix

package process

import (
	"os"
	"syscall"
)

// killChild kills the child's process group, and the child itself should the group not be there
// yet.
func killChild(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}
