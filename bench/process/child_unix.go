//go:build unix

package process

import (
	"os"
	"syscall"
)

// killChild kills the child's process group. It also kills the child, in case the group does not
// exist yet.
func killChild(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL)
	_ = p.Kill()
}

// Stop suspends the process, as if it hung.
func (c *Child) Stop() error { return c.Cmd.Process.Signal(syscall.SIGSTOP) }

// Continue resumes the process.
func (c *Child) Continue() error { return c.Cmd.Process.Signal(syscall.SIGCONT) }
