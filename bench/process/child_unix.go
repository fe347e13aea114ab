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

// Suspend suspends the process, as if it hung.
func (c *Child) Suspend() error { return c.Cmd.Process.Signal(syscall.SIGSTOP) }

// Resume resumes the process.
func (c *Child) Resume() error { return c.Cmd.Process.Signal(syscall.SIGCONT) }
